package dev.octet.trainer.replay;

import dev.octet.quant.recipe.LinearTensor;
import java.util.List;
import java.util.Set;

/**
 * What is guilty.
 *
 * @param extent what the products have to do with each other
 * @param products one; or several, in the graph's order
 * @param cured those of them that the cure changes
 * @param operands of the cured products that are guilty: one alone, or both
 * @param remedy what the cure does with them
 */
public record Culprit(
        Extent extent,
        List<LayerProduct> products,
        List<LayerProduct> cured,
        Set<LinearTensor> operands,
        Remedy remedy) {
    public Culprit {
        products = List.copyOf(products);
        cured = List.copyOf(cured);
        operands = Set.copyOf(operands);
    }

    /** This with another remedy. */
    Culprit with(Remedy other) {
        return new Culprit(extent, products, cured, operands, other);
    }

    /** This with other guilty operands. */
    Culprit with(Set<LinearTensor> others) {
        return new Culprit(extent, products, cured, others, remedy);
    }

    /** How far a fault reaches. */
    public enum Extent {
        /** One product of one layer shows the fault alone. */
        ALONE,
        /** Several products show the fault only together; one of them is cured. */
        TOGETHER,
        /** A product is at fault in so many layers that all are cured. */
        ALL_LAYERS
    }

    /** Cures, in the order in which they are tried. */
    public enum Remedy {
        /** Current scaling in place of delayed scaling. */
        CURRENT_SCALING,
        /** The product takes the operands as they are. */
        HIGH_PRECISION
    }
}
