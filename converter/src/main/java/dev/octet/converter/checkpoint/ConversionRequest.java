package dev.octet.converter.checkpoint;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.recipe.Recipe;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** What a checkpoint is to become. */
public sealed interface ConversionRequest {
    /** How quantised weights lie in the target; null for plain floats. */
    @Nullable
    Layout layout();

    /** Weights are quantised by a recipe and written in a layout; quantised ones are dequantised first. */
    record Quantize(Recipe recipe, Layout layout, LayoutOptions options) implements ConversionRequest {}

    /**
     * Every quantised weight becomes floats.
     *
     * @param type BF16, F16 or F32
     * @param keepScales the scales stay beside the checkpoint, so that quantising it again with them gives the same codes
     */
    record Dequantize(DType type, boolean keepScales) implements ConversionRequest {
        @Override
        public @Nullable Layout layout() {
            return null;
        }
    }

    /**
     * Quantised weights go to another layout, with their codes where the layout can say what they mean.
     *
     * @param recipe what weights that the layout cannot take as they are become; empty to refuse them
     */
    record Convert(Layout layout, LayoutOptions options, Optional<Recipe> recipe) implements ConversionRequest {}
}
