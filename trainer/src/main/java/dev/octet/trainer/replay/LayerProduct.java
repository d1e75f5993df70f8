package dev.octet.trainer.replay;

import dev.octet.quant.recipe.Product;
import java.util.Locale;

/**
 * One product of one Linear: what can be guilty.
 *
 * @param node id of the Linear's node
 * @param module as {@link dev.octet.trainer.precision.Fp8Layer#module} names it
 */
public record LayerProduct(String node, String module, Product product) {
    /** {@code model.layers.0.mlp.up_proj dgrad}. */
    @Override
    public String toString() {
        return module + " " + product.name().toLowerCase(Locale.ROOT);
    }
}
