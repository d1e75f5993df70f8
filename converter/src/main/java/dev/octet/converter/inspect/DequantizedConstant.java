package dev.octet.converter.inspect;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import java.util.Optional;

/**
 * Codes and scales that a {@code DequantizeLinear} joins to a weight.
 *
 * @param node the operator
 * @param codes a constant
 * @param scale a constant
 */
public record DequantizedConstant(Node node, Tensor codes, Tensor scale) {
    /** Which elements share a scale, by ONNX: a scalar, one for each index along {@code axis}, or blocks along it; empty for others. */
    public Optional<Granularity> granularity() {
        Shape shape = codes.shape();
        if (scale.shape().elementCount() == 1) {
            return Optional.of(new Granularity.PerTensor());
        }
        long axis = node.intAttribute("axis", 1);
        int fromEnd = (int) (axis < 0 ? axis : axis - shape.rank());
        if (fromEnd < -shape.rank() || fromEnd >= 0) {
            return Optional.empty();
        }
        long block = node.intAttribute("block_size", 0);
        Granularity granularity = block > 0 && block <= Integer.MAX_VALUE
                ? new Granularity.PerGroup(fromEnd, (int) block)
                : new Granularity.PerChannel(fromEnd);
        boolean fits =
                granularity.scaleShape(shape).elementCount() == scale.shape().elementCount();
        return fits ? Optional.of(granularity) : Optional.empty();
    }

    /** How the weight is stored: {@code E4M3FN per column, scale F32}. */
    public String form() {
        String number = Float8Format.of(codes.dtype())
                .flatMap(QuantType::of)
                .map(QuantType::toString)
                .orElse(codes.dtype().name());
        return number + granularity().map(g -> " " + g.text()).orElse("") + ", scale " + scale.dtype();
    }
}
