package dev.octet.converter.inspect;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Finds the quantised weights of a graph, whichever operators carry them.
 *
 * <table>
 * <caption>Forms</caption>
 * <tr><td>QDQ</td><td>{@code DequantizeLinear(codes, scale, zero)}; of rows that a {@code Gather} takes out of a table, too</td></tr>
 * <tr><td>QOperator</td><td>{@code QLinearMatMul}, {@code QLinearConv}, and {@code QGemm} and {@code QAttention} of ONNX Runtime</td></tr>
 * <tr><td>dynamic</td><td>{@code MatMulInteger}, {@code ConvInteger} with the scale in the Mul behind, and what ONNX Runtime fuses of them:
 *     {@code DynamicQuantizeMatMul}, {@code MatMulIntegerToFloat}</td></tr>
 * <tr><td>blocks</td><td>{@code DequantizeLinear} with a block size, {@code MatMulNBits} of ONNX Runtime with 4 or 8 bits</td></tr>
 * <tr><td>tables</td><td>{@code Mul(Cast(Gather(codes, ids)), Gather(scales, ids))}, as {@code octet quantize --embeddings int8} writes
 *     it</td></tr>
 * </table>
 */
public final class QuantizedConstants {
    private static final String MUL = "Mul";
    private static final String GATHER = "Gather";

    private final Function<String, Optional<Tensor>> constants;
    private final Map<String, Node> producers = new HashMap<>();
    private final Map<String, List<Node>> readers = new HashMap<>();
    private final Map<String, QuantizedConstant> found = new LinkedHashMap<>();

    private QuantizedConstants(List<Node> nodes, Function<String, Optional<Tensor>> constants) {
        this.constants = constants;
        for (Node node : nodes) {
            node.outputs().forEach(o -> producers.put(o, node));
            node.inputs()
                    .forEach(i ->
                            readers.computeIfAbsent(i, _ -> new ArrayList<>()).add(node));
        }
        nodes.forEach(this::read);
    }

    /** Those of the main graph by the names of their codes; codes that several nodes read are the first one's. */
    public static Map<String, QuantizedConstant> of(Graph graph) {
        Map<String, Tensor> constants = new HashMap<>();
        graph.initializers().forEach((name, i) -> i.tensor().ifPresent(t -> constants.put(name, t)));
        for (Node node : graph.nodes()) {
            if (node.is("Constant")
                    && node.attribute("value").orElse(null) instanceof Attribute.OfTensor(Initializer value)) {
                value.tensor().ifPresent(t -> constants.putIfAbsent(node.output(), t));
            }
        }
        return of(graph.nodes(), name -> Optional.ofNullable(constants.get(name)));
    }

    /** The same among any nodes. */
    public static Map<String, QuantizedConstant> of(List<Node> nodes, Function<String, Optional<Tensor>> constants) {
        return new QuantizedConstants(nodes, constants).found;
    }

    private @Nullable Tensor constant(String name) {
        return name.isEmpty()
                ? null
                : constants.apply(name).map(t -> t.withName(name)).orElse(null);
    }

    private void read(Node node) {
        WeightOperator operator = WeightOperator.of(node).orElse(null);
        if (operator != null && operator.reads() == WeightOperator.Reads.CODES) {
            read(node, operator);
        } else if (operator != null && operator.reads() == WeightOperator.Reads.BLOCKS) {
            blocks(node);
        } else if (node.opType().equals("DequantizeLinear")) {
            dequantize(node);
        } else if (node.is(MUL)) {
            table(node);
        }
    }

    private void put(
            Node node,
            Tensor codes,
            @Nullable Tensor scale,
            @Nullable Tensor zero,
            @Nullable Granularity granularity,
            QuantizedConstant.Inputs inputs) {
        if (scale != null) {
            found.putIfAbsent(codes.name(), new QuantizedConstant(node, codes, scale, zero, granularity, inputs));
        }
    }

    private void read(Node node, WeightOperator operator) {
        QuantizedConstant.Inputs in = operator.inputs();
        Tensor codes = constant(node.input(in.codes()));
        Tensor scale = in.scale() < 0 ? scaleBehind(node) : constant(node.input(in.scale()));
        if (codes == null || scale == null || codes.shape().rank() < 2) {
            return;
        }
        boolean turned = node.opType().equals("QGemm") && node.intAttribute("transB", 0) == 1;
        Granularity granularity =
                QuantizedConstant.granularity(codes.shape(), scale.shape(), turned ? -2 : operator.axis(), 0);
        put(node, codes, scale, constant(node.input(in.zero())), granularity, in);
    }

    /** The constant factor that the product of integers is multiplied with: {@code Mul(Cast(y), Mul(scale of x, scale of w))}. */
    private @Nullable Tensor scaleBehind(Node product) {
        Node cast = reader(product.output(), "Cast");
        Node mul = cast == null ? null : reader(cast.output(), MUL);
        if (cast == null || mul == null) {
            return null;
        }
        String factor = mul.input(mul.input(0).equals(cast.output()) ? 1 : 0);
        Node scales = producers.get(factor);
        if (scales == null || !scales.is(MUL)) {
            return constant(factor);
        }
        Tensor second = constant(scales.input(1));
        return second == null ? constant(scales.input(0)) : second;
    }

    private @Nullable Node reader(String value, String operator) {
        return readers.getOrDefault(value, List.of()).stream()
                .filter(n -> n.is(operator))
                .findFirst()
                .orElse(null);
    }

    private void dequantize(Node node) {
        Node gather = producers.get(node.input(0));
        boolean table = false;
        String name = node.input(0);
        if (gather != null && gather.is(GATHER) && gather.intAttribute("axis", 0) == 0) {
            table = true;
            name = gather.input(0);
        }
        Tensor codes = constant(name);
        Tensor scale = constant(node.input(1));
        if (codes == null || scale == null || (table && scale.shape().elementCount() != 1)) {
            return;
        }
        Granularity granularity = QuantizedConstant.granularity(
                codes.shape(), scale.shape(), node.intAttribute("axis", 1), node.intAttribute("block_size", 0));
        put(node, codes, scale, constant(node.input(2)), granularity, new QuantizedConstant.Inputs(0, 1, 2));
    }

    /** MatMulNBits: codes [N, K / block, bytes of a block] of a weight [N, K]; the scales, N * K / block, in the same order. */
    private void blocks(Node node) {
        Tensor packed = constant(node.input(1));
        Tensor scale = constant(node.input(2));
        long bits = node.intAttribute("bits", 4);
        long in = node.intAttribute("K", 0);
        long out = node.intAttribute("N", 0);
        long block = node.intAttribute("block_size", 0);
        DType type = bits == 4 ? DType.U4 : bits == 8 ? DType.U8 : null;
        if (packed == null
                || scale == null
                || type == null
                || in < 1
                || out < 1
                || block < 1
                || in % block != 0
                || in > Long.MAX_VALUE / Byte.SIZE / out) {
            return;
        }
        if (node.hasInput(4)
                || packed.bytes().byteSize() / out != in * bits / Byte.SIZE) { // rows in another order, or malformed
            return;
        }
        Shape shape = Shape.of(out, in);
        if (packed.bytes().byteSize() != new TensorSpec(packed.name(), type, shape).byteSize()) {
            return;
        }
        Granularity granularity = QuantizedConstant.granularity(shape, scale.shape(), -1, block);
        put(
                node,
                new Tensor(new TensorSpec(packed.name(), type, shape), packed.bytes()),
                scale,
                constant(node.input(3)),
                granularity,
                new QuantizedConstant.Inputs(1, 2, 3));
    }

    /** A table of I8 codes, [V, D], with one F32 scale per row, [V, 1]. */
    private void table(Node mul) {
        Node cast = producers.get(mul.input(0));
        Node rows = cast != null && cast.is("Cast") ? producers.get(cast.input(0)) : null;
        Node scales = rows == null ? null : producers.get(mul.input(1));
        if (rows == null || scales == null || !gathersAlike(rows, scales)) {
            return;
        }
        Tensor codes = constant(rows.input(0));
        Tensor scale = constant(scales.input(0));
        if (codes != null
                && scale != null
                && codes.dtype() == DType.I8
                && codes.shape().rank() == 2
                && scale.dtype() == DType.F32
                && scale.shape().equals(Shape.of(codes.shape().dim(0), 1))) {
            put(rows, codes, scale, null, new Granularity.PerChannel(-2), new QuantizedConstant.Inputs(0, -1, -1));
        }
    }

    private static boolean gathersAlike(Node codes, Node scales) {
        return List.of(codes, scales).stream().allMatch(n -> n.is(GATHER) && n.intAttribute("axis", 0) == 0)
                && codes.input(1).equals(scales.input(1));
    }
}
