package dev.octet.pipeline;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.recipe.Recipe;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What a run was exported to.
 *
 * @param output file or folder
 * @param type of weights that are not quantised
 * @param recipe how weights are quantised; null when they are not
 * @param fp8Layers Linears in FP8
 * @param kept Linears that are not
 * @param notes what the user should know
 */
record Exported(
        Path output,
        Target target,
        DType type,
        @Nullable Recipe recipe,
        int fp8Layers,
        List<Export.Kept> kept,
        List<String> notes) {
    public Exported {
        kept = List.copyOf(kept);
        notes = List.copyOf(notes);
    }
}
