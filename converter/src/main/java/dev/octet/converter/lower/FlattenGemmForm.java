package dev.octet.converter.lower;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Standard Q/DQ that ONNX Runtime loads with default options: the activation is flattened to two dimensions, quantised and
 * dequantised once for all its Linears, and multiplied by Gemm.
 *
 * <pre>
 *   x2 = Flatten(x, axis=-1)   xs = Shape(x)[:-1]   xd = DQ(Q(x2, scale))
 *   y  = Reshape(Gemm(xd, DQ(w), bias), Concat(xs, [N]))
 * </pre>
 *
 * Three rules, each measured to fail at session creation when broken (ONNX Runtime 1.29 and 1.30, levels EXTENDED and ALL):
 *
 * <ol>
 *   <li>Gemm always gets a float bias (zeros where the Linear has none). Its Q/DQ selector expects every input to come from a
 *       DequantizeLinear; one that does not keeps it from building an integer QGemm, which has no FP8 form. MatMul has only two
 *       inputs, so Q/DQ around MatMul always becomes an invalid MatMulIntegerToFloat (onnxruntime issue 22269).
 *   <li>Flatten stands directly before Q, also where x has two dimensions: it keeps Q from being fused into the producer (a Gemm
 *       would become QGemm, a Clip throws).
 *   <li>Flatten, not Reshape: Q is moved backwards through Reshape and Transpose, and Transpose has no FP8 before opset 21.
 * </ol>
 */
final class FlattenGemmForm implements LinearForm {
    private final NodeEmitter emit;
    private final Map<String, Activation> activations = new HashMap<>();
    private final MatMulForm weightOnly;

    /**
     * A quantised activation: {@code dequantized} has two dimensions.
     *
     * @param leading name of the I64 vector of all dimensions but the last; empty when x has two dimensions, so that Gemm's output
     *     has the right shape already
     */
    private record Activation(String dequantized, String leading) {}

    FlattenGemmForm(NodeEmitter emit) {
        this.emit = emit;
        this.weightOnly = new MatMulForm(emit);
    }

    @Override
    public void quantize(Node anchor, String x, Codes codes) {
        String flat = emit.edit.freshName(codes.name() + "_2d");
        emit.edit.insertBefore(anchor, Node.of(flat, "Flatten", List.of(x), List.of(flat), Attribute.of("axis", -1)));
        String leading = "";
        if (emit.rank(x).orElse(0) != 2) {
            leading = emit.edit.freshName(codes.name() + "_dims");
            emit.edit.insertBefore(
                    anchor,
                    Node.of(
                            leading,
                            "Shape",
                            List.of(x),
                            List.of(leading),
                            Attribute.of("start", 0),
                            Attribute.of("end", -1)));
        }
        emit.quantize(anchor, flat, codes);
        activations.put(codes.name(), new Activation(emit.dequantize(anchor, codes), leading));
    }

    @Override
    public void linear(Node n) {
        if (!n.hasInput(3)) {
            weightOnly.linear(n); // nothing for the selector to find: only one side is dequantised
            return;
        }
        Activation x = activations.get(n.input(0));
        if (x == null) {
            throw new IllegalStateException("activation of " + n.id() + " was not lowered before it");
        }
        boolean transB = n.intAttribute("transB", 0) == 1;
        long outChannels = emit.constant(n.input(1)).shape().dim(transB ? 0 : 1);
        Node dq = emit.dequantizeWeight(n.input(1), n.input(2), transB ? 0 : 1, n.input(1));
        // rule 1
        String bias = n.hasInput(4)
                ? n.input(4)
                : emit.zeros(emit.constant(n.input(2)).dtype(), outChannels);
        String y = n.output();
        String product = x.leading().isEmpty() ? y : emit.edit.freshName(y + "_2d");
        Node gemm = Node.of(n.name(), "Gemm", List.of(x.dequantized(), dq.output(), bias), List.of(product));
        gemm = transB ? gemm.with(Attribute.of("transB", 1)) : gemm;
        if (x.leading().isEmpty()) {
            emit.edit.replace(n, dq, gemm);
            return;
        }
        String shape = emit.edit.freshName(y + "_shape");
        emit.edit.replace(
                n,
                dq,
                gemm,
                Node.of(
                        shape,
                        "Concat",
                        List.of(x.leading(), emit.count(outChannels)),
                        List.of(shape),
                        Attribute.of("axis", 0)),
                Node.of(n.name() + "_reshape", "Reshape", List.of(product, shape), List.of(y)));
    }
}
