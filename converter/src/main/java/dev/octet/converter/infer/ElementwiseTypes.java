package dev.octet.converter.infer;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Operators whose output has the shape of their input, or the shape that their inputs broadcast to. */
final class ElementwiseTypes {
    static final Map<String, TypeRule> RULES = Map.of(
            "Where", t -> t.set(0, t.dtype(1) == null ? t.dtype(2) : t.dtype(1), broadcastShape(t)),
            "Cast", ElementwiseTypes::cast,
            "CastLike", t -> t.set(0, t.dtype(1), t.dims(0)),
            "Dropout", ElementwiseTypes::dropout,
            "QuantizeLinear", ElementwiseTypes::quantize,
            "DequantizeLinear", t -> t.set(0, t.dtype(1), t.dims(0)),
            "DynamicQuantizeLinear", ElementwiseTypes::quantizeDynamically);

    private ElementwiseTypes() {}

    /** Output 0 has the type and shape of input 0. */
    static void same(NodeTypes t) {
        t.set(0, t.dtype(0), t.dims(0));
    }

    /** Output 0 has the type of input 0, and the shape that all inputs broadcast to. */
    static void broadcast(NodeTypes t) {
        t.set(0, t.dtype(0), broadcastShape(t));
    }

    /** Output 0 is BOOL, in the shape that all inputs broadcast to. */
    static void compare(NodeTypes t) {
        t.set(0, DType.BOOL, broadcastShape(t));
    }

    /** Output 0 is BOOL, in the shape of input 0. */
    static void predicate(NodeTypes t) {
        t.set(0, DType.BOOL, t.dims(0));
    }

    private static void cast(NodeTypes t) {
        t.set(0, DType.ofOnnxId((int) t.node().intAttribute("to", 0)).orElse(null), t.dims(0));
    }

    private static void dropout(NodeTypes t) {
        same(t);
        t.set(1, t.opset() >= 10 ? DType.BOOL : t.dtype(0), t.dims(0));
    }

    private static void quantizeDynamically(NodeTypes t) {
        t.set(0, DType.U8, t.dims(0));
        t.set(1, DType.F32, List.of());
        t.set(2, DType.U8, List.of());
    }

    private static void quantize(NodeTypes t) {
        DType declared =
                DType.ofOnnxId((int) t.node().intAttribute("output_dtype", 0)).orElse(null);
        DType dtype = t.node().hasInput(2) ? t.dtype(2) : declared == null ? DType.U8 : declared;
        t.set(0, dtype, t.dims(0));
    }

    /** The shape that all inputs broadcast to; null when one is unknown. */
    private static @Nullable List<Dim> broadcastShape(NodeTypes t) {
        List<Dim> joined = t.dims(0);
        for (int i = 1; i < t.node().inputs().size() && joined != null; i++) {
            List<Dim> next = t.dims(i);
            if (next == null) {
                return null;
            }
            List<Dim> wider = BroadcastShape.join(joined, next);
            if (wider == null) {
                throw t.contradiction("shapes " + joined + " and " + next + " do not broadcast");
            }
            joined = wider;
        }
        return joined;
    }
}
