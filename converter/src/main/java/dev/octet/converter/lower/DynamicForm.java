package dev.octet.converter.lower;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;

/**
 * Integer products of activations that are quantised at each run, for {@link #linear} nodes whose input scale is no constant.
 *
 * <pre>
 *   xq, xs, xz = DynamicQuantizeLinear(x)      once for all Linears that read x
 *   y = Add(Mul(Cast(MatMulInteger(xq, w, xz), F32), Mul(xs, ws)), bias)
 * </pre>
 *
 * <p>ONNX Runtime 1.29 and 1.30 with default options make DynamicQuantizeMatMul of it where one Linear reads x, and one
 * MatMulIntegerToFloat for each Linear where several do; both take the bias in. The order of operands matters to that fusion: the product of
 * the two scales is the right operand of Mul. A weight without a zero point is taken for a symmetric one.
 *
 * <p>DynamicQuantizeLinear and the products are of F32; a model in halves casts around them.
 */
final class DynamicForm {
    private final NodeEmitter emit;

    DynamicForm(NodeEmitter emit) {
        this.emit = emit;
    }

    /** Quantises {@code x} before {@code n}, a QuantizeDynamic node, which it replaces. */
    void quantize(Node n, DType type) {
        List<Node> nodes = new ArrayList<>();
        String x = n.input(0);
        if (type != DType.F32) {
            String wide = emit.edit.freshName(x + "_f32");
            nodes.add(cast(x, DType.F32, wide));
            x = wide;
        }
        nodes.add(Node.of(n.name(), "DynamicQuantizeLinear", List.of(x), n.outputs()));
        emit.edit.replace(n, nodes.toArray(Node[]::new));
    }

    /**
     * Replaces a {@code QuantizedLinear} node.
     *
     * @param type of its output
     */
    void linear(Node n, DType type) {
        String codes = n.intAttribute("transB", 0) == 1 ? emit.transposed(n.input(1)) : n.input(1);
        String y = n.output();
        String product = emit.edit.freshName(y + "_i32");
        String wide = emit.edit.freshName(y + "_f32");
        String scale = emit.edit.freshName(y + "_scale");
        boolean bias = n.hasInput(4);
        boolean narrow = type != DType.F32;
        String scaled = bias || narrow ? emit.edit.freshName(y + "_scaled") : y;
        List<Node> nodes = new ArrayList<>(List.of(
                Node.of(n.name(), "MatMulInteger", List.of(n.input(0), codes, n.input(5)), List.of(product)),
                cast(product, DType.F32, wide),
                Node.of(scale, "Mul", List.of(n.input(3), n.input(2)), List.of(scale)),
                Node.of(n.name() + "_mul", "Mul", List.of(wide, scale), List.of(scaled))));
        String last = scaled;
        if (narrow) {
            last = bias ? emit.edit.freshName(y + "_narrow") : y;
            nodes.add(cast(scaled, type, last));
        }
        if (bias) {
            nodes.add(Node.of(n.name() + "_add", "Add", List.of(last, n.input(4)), List.of(y)));
        }
        emit.edit.replace(n, nodes.toArray(Node[]::new));
    }

    private static Node cast(String from, DType type, String to) {
        return Node.of(to + "_cast", "Cast", List.of(from), List.of(to), Attribute.of("to", type.onnxId()));
    }
}
