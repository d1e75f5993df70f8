package dev.octet.converter.lower;

import dev.octet.formats.graph.Node;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Explicit Q/DQ directly around MatMul, as TensorRT expects it: scalar
 * positive activation scale, FP8 weight constant behind one DequantizeLinear that feeds the product with nothing between, so a
 * weight stored [out, in] is transposed here once. Also right for weight-only models in ONNX Runtime.
 *
 * <p>Source: TensorRT documentation, "Working with Quantized Types"; the FP8 weight must be a constant and the scale a
 * build-time constant; Cast to FP8 is not accepted.
 */
final class MatMulForm implements LinearForm {
    private static final int HALF_BYTE = 4;

    private final NodeEmitter emit;
    private final Map<String, Codes> quantized = new HashMap<>();
    private final Map<String, String> floats = new HashMap<>();

    MatMulForm(NodeEmitter emit) {
        this.emit = emit;
    }

    @Override
    public void quantize(Node anchor, String x, Codes codes) {
        emit.quantize(anchor, x, codes);
        quantized.put(codes.name(), codes);
    }

    /** The input in floats again, once for all Linears that read the codes. */
    private String dequantized(Node n) {
        Codes codes = quantized.get(n.input(0));
        if (codes == null) {
            throw new IllegalStateException("activation of " + n.id() + " was not lowered before it");
        }
        return floats.computeIfAbsent(codes.name(), _ -> emit.dequantize(n, codes));
    }

    @Override
    public void linear(Node n) {
        String x = n.hasInput(3) ? dequantized(n) : n.input(0);
        boolean transB = n.intAttribute("transB", 0) == 1;
        Node dq;
        if (n.intAttribute("bits", Byte.SIZE) == HALF_BYTE) {
            dq = emit.dequantizeBlocks(n.input(1), n.input(2), n.input(6), transB);
        } else {
            String codes = transB ? emit.transposed(n.input(1)) : n.input(1);
            dq = emit.dequantizeWeight(codes, n.input(2), 1, n.input(1));
        }
        String y = n.output();
        if (n.hasInput(4)) {
            String product = emit.edit.freshName(y + "_matmul");
            emit.edit.replace(
                    n,
                    dq,
                    Node.of(n.name() + "_matmul", "MatMul", List.of(x, dq.output()), List.of(product)),
                    Node.of(n.name(), "Add", List.of(product, n.input(4)), List.of(y)));
        } else {
            emit.edit.replace(n, dq, Node.of(n.name(), "MatMul", List.of(x, dq.output()), List.of(y)));
        }
    }
}
