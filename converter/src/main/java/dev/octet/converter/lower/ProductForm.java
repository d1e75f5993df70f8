package dev.octet.converter.lower;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Q/DQ around both operands of a product of two computed values, as attention has them.
 *
 * <pre>
 *   TensorRT:     y = MatMul(DQ(Q(a)), DQ(Q(b)))
 *   ONNX Runtime: y = MatMul(DQ(codes of a), Mul(Cast(codes of b), scale of b)), codes = Reshape(Q(Flatten(x)), Shape(x))
 * </pre>
 *
 * <p>The second operand is dequantised in the two steps that DequantizeLinear is defined by, because ONNX Runtime with default options makes an integer
 * product of a MatMul between two DequantizeLinear, which has no form for 8-bit floats (its issue 22269), and Gemm, by which Linears avoid that, has no
 * batches. Flatten is there for the reasons that {@link FlattenGemmForm} gives: without it QuantizeLinear moves back to the Gemm that made the value. A
 * value that several products read is quantised once.
 */
final class ProductForm {
    private final NodeEmitter emit;
    private final OnnxTarget target;
    private final Map<String, LinearForm.Codes> quantized = new HashMap<>();
    private final Map<String, String> firsts = new HashMap<>();
    private final Map<String, String> seconds = new HashMap<>();

    ProductForm(NodeEmitter emit, OnnxTarget target) {
        this.emit = emit;
        this.target = target;
    }

    /**
     * Replaces a {@code QuantizedProduct} node.
     *
     * @param format of the codes
     * @param type of the operands
     */
    void product(Node n, DType format, DType type) {
        LinearForm.Codes a = codes(n, n.input(0), n.input(1), format);
        LinearForm.Codes b = codes(n, n.input(2), n.input(3), format);
        String first = firsts.computeIfAbsent(a.name(), _ -> emit.dequantize(n, a));
        String second = target == OnnxTarget.TENSORRT
                ? firsts.computeIfAbsent(b.name(), _ -> emit.dequantize(n, b))
                : seconds.computeIfAbsent(b.name(), _ -> scaled(n, b, type));
        emit.edit.replace(n, Node.of(n.name(), "MatMul", List.of(first, second), n.outputs()));
    }

    private LinearForm.Codes codes(Node n, String value, String scale, DType format) {
        return quantized.computeIfAbsent(value, v -> {
            LinearForm.Codes codes = new LinearForm.Codes(emit.edit.freshName(v + "_fp8"), scale, "", format);
            if (target == OnnxTarget.TENSORRT) {
                emit.quantize(n, v, codes);
            } else {
                quantizeFlat(n, v, codes);
            }
            return codes;
        });
    }

    private void quantizeFlat(Node n, String value, LinearForm.Codes codes) {
        String flat = emit.edit.freshName(codes.name() + "_2d");
        String shape = emit.edit.freshName(codes.name() + "_dims");
        LinearForm.Codes rows =
                new LinearForm.Codes(emit.edit.freshName(codes.name() + "_rows"), codes.scale(), "", codes.type());
        emit.edit.insertBefore(
                n,
                Node.of(flat, "Flatten", List.of(value), List.of(flat), Attribute.of("axis", -1)),
                Node.of(shape, "Shape", List.of(value), List.of(shape)));
        emit.quantize(n, flat, rows);
        emit.edit.insertBefore(n, Node.of(codes.name(), "Reshape", List.of(rows.name(), shape), List.of(codes.name())));
    }

    private String scaled(Node n, LinearForm.Codes codes, DType type) {
        String numbers = emit.edit.freshName(codes.name() + "_numbers");
        String values = emit.edit.freshName(codes.name() + "_values");
        emit.edit.insertBefore(
                n,
                Node.of(numbers, "Cast", List.of(codes.name()), List.of(numbers), Attribute.of("to", type.onnxId())),
                Node.of(values, "Mul", List.of(numbers, codes.scale()), List.of(values)));
        return values;
    }
}
