package dev.octet.converter.checkpoint;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.recipe.Recipe;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The goal of a checkpoint conversion. */
public sealed interface ConversionRequest {
    /** The layout of the target's quantised weights; null for plain floats. */
    @Nullable
    Layout layout();

    /** Quantises weights by a recipe and writes them in a layout; weights that are quantised already are dequantised first. */
    record Quantize(Recipe recipe, Layout layout, LayoutOptions options) implements ConversionRequest {}

    /**
     * Turns every quantised weight into floats.
     *
     * @param type BF16, F16 or F32
     * @param keepScales keep the scales in a folder inside the checkpoint's; quantising again with them gives the same codes
     */
    record Dequantize(DType type, boolean keepScales) implements ConversionRequest {
        @Override
        public @Nullable Layout layout() {
            return null;
        }
    }

    /** Leaves every tensor as it is, in files of safetensors: for checkpoints in other formats. */
    record Copy() implements ConversionRequest {
        @Override
        public @Nullable Layout layout() {
            return null;
        }
    }

    /** Adds adapters to the weights they change, each in its own form: layout, names and everything else stay as they are. */
    record Merge() implements ConversionRequest {
        @Override
        public @Nullable Layout layout() {
            return null;
        }
    }

    /**
     * Moves quantised weights to another layout, with their codes unchanged where the layout can express them.
     *
     * @param recipe requantises weights that the layout cannot express; empty to refuse such weights
     */
    record Convert(Layout layout, LayoutOptions options, Optional<Recipe> recipe) implements ConversionRequest {}
}
