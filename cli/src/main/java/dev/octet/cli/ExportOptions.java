package dev.octet.cli;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.recipe.Recipe;
import java.util.Optional;

/**
 * How a run is exported.
 *
 * @param type of weights that are not quantised: F32 or BF16; for quantised graphs F32
 * @param recipe one of the target's; empty for the one that comes nearest to how the run computed
 * @param threads at most so many work at once; any number gives the same bytes
 * @param force overwrite what is there
 * @param writes whether a file is written; without, all is decided as if it were
 */
public record ExportOptions(DType type, Optional<Recipe> recipe, int threads, boolean force, boolean writes) {
    public ExportOptions {
        if (type != DType.F32 && type != DType.BF16) {
            throw new IllegalArgumentException("weights are exported as F32 or BF16, not " + type);
        }
    }

    /** F32, near to the run, all cores, nothing is overwritten. */
    public static ExportOptions defaults() {
        return new ExportOptions(
                DType.F32, Optional.empty(), Runtime.getRuntime().availableProcessors(), false, true);
    }

    /** The same with another type. */
    public ExportOptions withType(DType newType) {
        return new ExportOptions(newType, recipe, threads, force, writes);
    }

    /** The same with a recipe. */
    public ExportOptions withRecipe(Recipe newRecipe) {
        return new ExportOptions(type, Optional.of(newRecipe), threads, force, writes);
    }
}
