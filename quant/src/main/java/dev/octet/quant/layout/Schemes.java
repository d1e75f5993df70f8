package dev.octet.quant.layout;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.scale.ScaleRule;
import java.util.Optional;

/** What all layouts have in common about schemes: how a recipe becomes one, which choices make no sense anywhere, tensors most have. */
final class Schemes {
    private Schemes() {}

    /** How a recipe's weights are quantised in a layout; MX exponents as {@code exponent} has them. */
    static OperandSpec of(Recipe recipe, LayoutOptions options, ScaleRule.Exponent exponent) {
        OperandSpec weight = recipe.weight();
        boolean mx = weight.granularity() instanceof Granularity.Mx;
        ScaleRule rule = mx
                ? new ScaleRule.MxRule(exponent)
                : options.powerOfTwoScales()
                        ? new ScaleRule.PowerOfTwoRule(ScaleRule.Rounding.UP)
                        : new ScaleRule.AmaxRule();
        DType number = mx ? DType.F8_E8M0 : weight.type() == QuantType.E2M1 ? DType.F8_E4M3FN : options.scales();
        return weight.scaledBy(rule, number);
    }

    /** The codes of a matrix: two of four bits in a byte, under a name that may tell so. */
    static TensorSpec codes(String name, OperandSpec scheme, Shape shape) {
        return scheme.type() == QuantType.E2M1
                ? new TensorSpec(name, DType.U8, Shape.of(shape.dim(0), shape.dim(1) / 2))
                : new TensorSpec(name, scheme.type().dtype(), shape);
    }

    /** A tensor of scales that multiply; powers of two lie in bytes. */
    static ScaleTensor scales(String name, OperandSpec scheme, Shape shape) {
        DType number = scheme.scaleType();
        return new ScaleTensor(
                new TensorSpec(name, number == DType.F8_E8M0 ? DType.U8 : number, shape),
                number,
                ScaleTensor.Direction.MULTIPLIER);
    }

    /** The one scale of an input of attention, as compressed-tensors names it and vLLM reads it for other layouts, too. */
    static TensorSpec attentionScale(String attention, AttentionInput input) {
        return new TensorSpec(attention + "." + input.label() + "_scale", DType.F32, Shape.of(1));
    }

    /** Why a layout that knows one scale for the keys and one for the values of a layer cannot say a scheme; empty when it can. */
    static Optional<String> unsupported(Layout layout, AttentionScheme scheme) {
        if (scheme.queries()) {
            return Optional.of("layout " + layout.name() + " has no scales of queries; compressed-tensors has");
        }
        return scheme.perHead()
                ? Optional.of("layout " + layout.name()
                        + " has one scale for the keys of a layer and one for its values, not one for each head;"
                        + " compressed-tensors has")
                : Optional.empty();
    }

    /** Choices that no layout has a way to say. */
    static Optional<String> senseless(Recipe recipe, LayoutOptions options) {
        OperandSpec weight = recipe.weight();
        if (!(weight.scaling() instanceof OperandSpec.Scaling.FromValues)) {
            return Optional.of("recipe " + recipe.name() + " says how a model is trained, not how it is stored");
        }
        boolean blocks = weight.granularity() instanceof Granularity.PerBlock;
        if (options.powerOfTwoScales() && !blocks) {
            return Optional.of(
                    "scales rounded to powers of two are for 128 x 128 blocks (fp8-block); mxfp8 has them anyway");
        }
        boolean staticInputs = weight.granularity() instanceof Granularity.PerTensor
                || weight.type() == QuantType.E2M1
                || weight.granularity() instanceof Granularity.PerChannel;
        if (options.staticInputs() && (!staticInputs || recipe.input() == null)) {
            return Optional.of("activations of " + recipe.name()
                    + " have no static scale: consumers find theirs at run time; leave the statistics away");
        }
        DType type = options.scales();
        return type == DType.F32 || type == DType.BF16 || type == DType.F16
                ? Optional.empty()
                : Optional.of("scales are stored as F32, BF16 or F16, not as " + type);
    }

    /** Why a weight of this shape has no whole blocks along its inputs, or nothing at all; empty when it can be quantised. */
    static Optional<String> refusal(OperandSpec scheme, Shape shape) {
        if (shape.rank() < 2) {
            return Optional.of("a weight of shape " + shape + " is not a matrix");
        }
        if (shape.elementCount() == 0) {
            return Optional.of("a weight of shape " + shape + " has no elements");
        }
        int size = groupSize(scheme.granularity());
        if (size > 1 && shape.dim(-1) % size != 0) {
            return Optional.of(shape.dim(-1) + " inputs are no multiple of " + size + ", the size of a block");
        }
        return Optional.empty();
    }

    private static int groupSize(Granularity granularity) {
        return switch (granularity) {
            case Granularity.PerGroup(int _, int size) -> size;
            case Granularity.Mx(int _, int size) -> size;
            case Granularity.PerTensor _, Granularity.PerChannel _, Granularity.PerToken _, Granularity.PerBlock _ -> 1;
        };
    }

    /** Why blocks overhang the edge of a weight; empty when none does. */
    static Optional<String> overhang(Granularity granularity, Shape shape) {
        if (!(granularity instanceof Granularity.PerBlock(int rows, int cols))
                || (shape.dim(-2) % rows == 0 && shape.dim(-1) % cols == 0)) {
            return Optional.empty();
        }
        return Optional.of(shape.dim(-2) + " x " + shape.dim(-1) + " is not a multiple of " + rows + " x " + cols
                + ", and this consumer takes the number of rows over that of scales for the size of a block");
    }
}
