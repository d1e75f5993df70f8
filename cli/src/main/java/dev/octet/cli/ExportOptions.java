package dev.octet.cli;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.recipe.Recipe;
import java.util.Optional;
import java.util.Set;

/**
 * How a run is exported.
 *
 * @param type of weights that are not quantised: F32, BF16 or F16; empty for that of the Hugging Face folder that the run was started with,
 *     F32 without one and for graphs
 * @param recipe one of the target's; empty for the one that comes nearest to how the run computed
 * @param threads at most so many work at once; any number gives the same bytes
 * @param force overwrite what is there
 * @param writes whether a file is written; without, all is decided as if it were
 */
public record ExportOptions(Optional<DType> type, Optional<Recipe> recipe, int threads, boolean force, boolean writes) {
    private static final Set<DType> TYPES = Set.of(DType.F32, DType.BF16, DType.F16);

    public ExportOptions {
        if (type.isPresent() && !TYPES.contains(type.get())) {
            throw new IllegalArgumentException("weights are exported as F32, BF16 or F16, not " + type.get());
        }
    }

    /** The source's type, near to the run, all cores, nothing is overwritten. */
    public static ExportOptions defaults() {
        return new ExportOptions(
                Optional.empty(), Optional.empty(), Runtime.getRuntime().availableProcessors(), false, true);
    }

    /** The same with another type. */
    public ExportOptions withType(DType newType) {
        return new ExportOptions(Optional.of(newType), recipe, threads, force, writes);
    }

    /** The same with a recipe. */
    public ExportOptions withRecipe(Recipe newRecipe) {
        return new ExportOptions(type, Optional.of(newRecipe), threads, force, writes);
    }
}
