package dev.octet.quant.layout;

import dev.octet.quant.recipe.Recipe;
import java.util.List;

/**
 * What a checkpoint about to be written holds: all that its configuration must say.
 *
 * @param recipe how weights and activations are quantised
 * @param options the choices made
 * @param quantized the quantised weights, in the order of the checkpoint
 * @param keptLinears modules that a consumer takes for a Linear and that are not quantised, in order: {@code lm_head}, routers, kept ones
 * @param kvScales whether attention layers have {@code k_scale} and {@code v_scale}
 */
public record LayoutContents(
        Recipe recipe,
        LayoutOptions options,
        List<StoredWeight> quantized,
        List<String> keptLinears,
        boolean kvScales) {
    public LayoutContents {
        quantized = List.copyOf(quantized);
        keptLinears = List.copyOf(keptLinears);
    }
}
