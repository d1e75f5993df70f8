package dev.octet.trainer.guard;

import dev.octet.quant.recipe.Product;
import java.util.Locale;

/**
 * A product of a Linear that a guard may demote, or of the Linears of experts that are computed as one: these are demoted and promoted together.
 *
 * @param node id of the Linear's node, or of the one that computes those of experts
 * @param layer its module, as messages name it: {@code model.layers.0.mlp.up_proj}, {@code model.layers.0.mlp.experts.*.up_proj}
 * @param scaling what its configured level is called: {@code delayed}, or the name of another recipe
 */
public record GuardedProduct(String node, String layer, Product product, String scaling) {
    /** What it is called in messages: {@code model.layers.0.mlp.up_proj.dgrad}. */
    public String name() {
        return layer + "." + key(product);
    }

    /** What it is called in files and checkpoints, distinct within a run: {@code NODE:dgrad}. */
    public String id() {
        return node + ":" + key(product);
    }

    /** Whether its configured level is delayed scaling. */
    public boolean isDelayed() {
        return scaling.equals("delayed");
    }

    /** The name of a product in files. */
    static String key(Product product) {
        return product.name().toLowerCase(Locale.ROOT);
    }
}
