package dev.octet.converter.plan;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Brings {@linkplain LayerKind#CONV convolutions} and the {@linkplain LayerKind#ATTENTION products of attention} to INT8, with values quantised by
 * their ranges in each run, so that no data are needed. Every value is quantised once, however many nodes read it.
 *
 * <pre>
 *   q, s, z = DynamicQuantizeLinear(x)
 *   Conv:   y = Add(Mul(Cast(ConvInteger(q, w, z), F32), Mul(s, w scale)), bias)    w [M, ..] in I8, w scale [M, 1, 1]
 *   MatMul: y = Mul(Cast(MatMulInteger(qa, qb, za, zb), F32), Mul(sa, sb))
 * </pre>
 *
 * <p>ONNX Runtime 1.30 makes DynamicQuantizeMatMul of the second. A MatMul in halves casts around it.
 */
final class DynamicProducts {
    private static final OperandSpec SPEC = OperandSpec.fromValues(QuantType.INT8, new Granularity.PerChannel(-2));

    private final GraphEdit edit;
    private final Arena arena;
    private final Map<String, Codes> quantized = new HashMap<>();

    /** A value in U8. */
    private record Codes(String codes, String scale, String zero) {}

    DynamicProducts(GraphEdit edit, Arena arena) {
        this.edit = edit;
        this.arena = arena;
    }

    /** Replaces a Conv with a finite constant F32 weight that nothing else reads, and a constant bias or none. */
    LayerResult convolution(Node conv) {
        Codes x = codes(conv, conv.input(0), false);
        Tensor weight = constant(conv.input(1));
        long out = weight.shape().dim(0);
        Shape rows = Shape.of(out, weight.shape().elementCount() / Math.max(1, out));
        Tensor matrix = new Tensor(new TensorSpec(weight.name(), weight.dtype(), rows), weight.bytes());
        QuantizedTensor q = Quantizer.sequential().quantize(matrix, SPEC, arena).orElseThrow();
        long[] spread = new long[weight.shape().rank() - 1];
        Arrays.fill(spread, 1);
        spread[0] = out;
        String name = conv.input(1);
        put(name, DType.I8, weight.shape(), q.codesTensor());
        String stem = name.endsWith(".weight") ? name.substring(0, name.length() - ".weight".length()) : name;
        String scale = edit.freshName(stem + ".weight_scale");
        put(scale, DType.F32, Shape.of(spread), q.scale());
        String y = conv.output();
        String product = edit.freshName(y + "_i32");
        boolean bias = conv.hasInput(2);
        String scaled = bias ? edit.freshName(y + "_scaled") : y;
        List<Node> nodes = new ArrayList<>(
                List.of(Node.of(conv.name(), "ConvInteger", List.of(x.codes(), name, x.zero()), List.of(product))
                        .withAttributes(conv.attributes())));
        nodes.addAll(scaled(product, List.of(x.scale(), scale), scaled));
        if (bias) {
            Tensor b = constant(conv.input(2));
            String shaped = edit.freshName(conv.input(2) + "_channels");
            put(shaped, b.dtype(), Shape.of(spread), b);
            nodes.add(Node.of(conv.name() + "_add", "Add", List.of(scaled, shaped), List.of(y)));
        }
        edit.replace(conv, nodes.toArray(Node[]::new));
        return LayerResults.of(conv, name, matrix, q, false);
    }

    /**
     * Replaces a MatMul of two computed values.
     *
     * @param type of both; null where it is unknown, which is taken for F32
     */
    void product(Node product, @Nullable DType type) {
        boolean narrow = type == DType.F16 || type == DType.BF16;
        Codes a = codes(product, product.input(0), narrow);
        Codes b = codes(product, product.input(1), narrow);
        String y = product.output();
        String sum = edit.freshName(y + "_i32");
        String wide = narrow ? edit.freshName(y + "_f32") : y;
        List<Node> nodes = new ArrayList<>(List.of(Node.of(
                product.name(), "MatMulInteger", List.of(a.codes(), b.codes(), a.zero(), b.zero()), List.of(sum))));
        nodes.addAll(scaled(sum, List.of(a.scale(), b.scale()), wide));
        if (narrow) {
            nodes.add(cast(wide, Objects.requireNonNull(type), y));
        }
        edit.replace(product, nodes.toArray(Node[]::new));
    }

    /** A sum of integers times the scales of both factors. */
    private List<Node> scaled(String sum, List<String> scales, String result) {
        String wide = edit.freshName(sum + "_f32");
        String scale = edit.freshName(sum + "_scale");
        return List.of(
                cast(sum, DType.F32, wide),
                Node.of(scale, "Mul", scales, List.of(scale)),
                Node.of(result + "_mul", "Mul", List.of(wide, scale), List.of(result)));
    }

    /** The codes of a value, made before {@code reader} where they are not there. */
    private Codes codes(Node reader, String value, boolean narrow) {
        Codes known = quantized.get(value);
        if (known != null) {
            return known;
        }
        String x = value;
        if (narrow) {
            x = edit.freshName(value + "_f32");
            edit.insertBefore(reader, cast(value, DType.F32, x));
        }
        String name = edit.freshName(value + "_u8");
        Codes made = new Codes(name, edit.freshName(name + "_scale"), edit.freshName(name + "_zero"));
        edit.insertBefore(
                reader,
                Node.of(name, "DynamicQuantizeLinear", List.of(x), List.of(made.codes(), made.scale(), made.zero())));
        quantized.put(value, made);
        return made;
    }

    private void put(String name, DType type, Shape shape, Tensor bytes) {
        edit.putInitializer(Initializer.of(new Tensor(new TensorSpec(name, type, shape), bytes.bytes())));
    }

    private Tensor constant(String name) {
        return Objects.requireNonNull(edit.initializer(name), name).tensor().orElseThrow();
    }

    private static Node cast(String from, DType type, String to) {
        return Node.of(to + "_cast", "Cast", List.of(from), List.of(to), Attribute.of("to", type.onnxId()));
    }
}
