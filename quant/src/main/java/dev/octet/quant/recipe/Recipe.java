package dev.octet.quant.recipe;

import static java.util.Objects.requireNonNull;

import dev.octet.quant.block.Granularity;
import org.jspecify.annotations.Nullable;

/**
 * A named way to quantise the products of a Linear: which number format, granularity and scaling each operand gets. Recipes for conversion
 * state the forward product alone, {@linkplain TrainingRecipe training recipes} all three. {@link Recipes} has them all.
 */
public sealed interface Recipe permits ConversionRecipe, TrainingRecipe {
    /** As users typed it, and as files and reports have it: {@code fp8-dynamic}, or an alias. */
    String name();

    /** The recipe's own name, which says what it is; another than {@link #name} where that is an alias. */
    default String ownName() {
        return name();
    }

    /**
     * How an operand is quantised.
     *
     * @param tensor one that {@code product} {@linkplain Product#reads reads}
     * @return null when the product takes it in the model's own precision, or the recipe says nothing of this product
     */
    @Nullable
    OperandSpec operand(Product product, LinearTensor tensor);

    /** The input of the forward product; null for weight-only recipes. */
    default @Nullable OperandSpec input() {
        return operand(Product.FPROP, LinearTensor.INPUT);
    }

    /** The weight of the forward product, which every recipe quantises. */
    default OperandSpec weight() {
        return requireNonNull(operand(Product.FPROP, LinearTensor.WEIGHT));
    }

    /** Inputs that share a scale in recipes of four-bit integers where nothing else is asked for. */
    int INT4_GROUP = 128;

    /** Whether users may choose which inputs of a weight share a scale: groups of any size, or all inputs of a channel. */
    default boolean isGrouped() {
        return weight().type().isInteger() && weight().type().bits() == INT4_BITS;
    }

    /** Bits of the integers whose groups users choose. */
    int INT4_BITS = 4;

    /**
     * This with its weights in other groups, where {@link #isGrouped}; else this.
     *
     * @param granularity groups of inputs, or channels of outputs
     */
    default Recipe withGroups(Granularity granularity) {
        boolean possible = (granularity instanceof Granularity.PerChannel(int channel) && channel == -2)
                || (granularity instanceof Granularity.PerGroup(int axis, int _) && axis == -1);
        return isGrouped() && possible
                ? new ConversionRecipe(name(), ownName(), input(), weight().with(granularity))
                : this;
    }

    /** This for the weight alone: the input stays as it is. */
    default Recipe weightOnly() {
        return input() == null
                ? this
                : new ConversionRecipe(name() + ", weights only", ownName() + ", weights only", null, weight());
    }

    /** Whether the scales of inputs come from the values of each run. */
    default boolean isDynamic() {
        OperandSpec input = input();
        return input != null && input.isDynamic();
    }

    /** Whether the scales of inputs come from calibration. */
    default boolean needsStatistics() {
        OperandSpec input = input();
        return input != null && input.scaling() instanceof OperandSpec.Scaling.FromStatistics;
    }
}
