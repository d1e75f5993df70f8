package dev.octet.converter.infer;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Operators whose output has the shape of their input, or the one to which their inputs broadcast. */
final class ElementwiseTypes {
    static final Map<String, TypeRule> RULES = rules();

    private ElementwiseTypes() {}

    private static Map<String, TypeRule> rules() {
        Map<String, TypeRule> rules = new HashMap<>();
        for (String op : List.of(
                "Abs",
                "Acos",
                "Acosh",
                "Asin",
                "Asinh",
                "Atan",
                "Atanh",
                "Ceil",
                "Celu",
                "Clip",
                "Cos",
                "Cosh",
                "CumSum",
                "CumProd",
                "Elu",
                "Erf",
                "Exp",
                "Floor",
                "Gelu",
                "GroupNormalization",
                "HardSigmoid",
                "HardSwish",
                "Hardmax",
                "Identity",
                "InstanceNormalization",
                "LRN",
                "LeakyRelu",
                "Log",
                "LogSoftmax",
                "LpNormalization",
                "MeanVarianceNormalization",
                "Mish",
                "Neg",
                "PRelu",
                "Reciprocal",
                "Relu",
                "RotaryEmbedding",
                "Round",
                "Scatter",
                "ScatterElements",
                "ScatterND",
                "Selu",
                "Shrink",
                "Sigmoid",
                "Sign",
                "Sin",
                "Sinh",
                "Softmax",
                "Softplus",
                "Softsign",
                "Sqrt",
                "Swish",
                "Tan",
                "Tanh",
                "ThresholdedRelu",
                "Trilu",
                "BitwiseNot")) {
            rules.put(op, ElementwiseTypes::same);
        }
        for (String op : List.of(
                "Add",
                "Sub",
                "Mul",
                "Div",
                "Mod",
                "Pow",
                "Max",
                "Min",
                "Sum",
                "Mean",
                "And",
                "Or",
                "Xor",
                "BitwiseAnd",
                "BitwiseOr",
                "BitwiseXor",
                "BitShift")) {
            rules.put(op, t -> t.set(0, t.dtype(0), broadcast(t, 0)));
        }
        for (String op : List.of("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")) {
            rules.put(op, t -> t.set(0, DType.BOOL, broadcast(t, 0)));
        }
        for (String op : List.of("IsInf", "IsNaN", "Not")) {
            rules.put(op, t -> t.set(0, DType.BOOL, t.dims(0)));
        }
        rules.put("Where", t -> t.set(0, t.dtype(1) == null ? t.dtype(2) : t.dtype(1), broadcast(t, 0)));
        rules.put(
                "Cast",
                t -> t.set(
                        0, DType.ofOnnxId((int) t.node().intAttribute("to", 0)).orElse(null), t.dims(0)));
        rules.put("CastLike", t -> t.set(0, t.dtype(1), t.dims(0)));
        rules.put("Dropout", t -> {
            same(t);
            t.set(1, t.opset() >= 10 ? DType.BOOL : t.dtype(0), t.dims(0));
        });
        rules.put("QuantizeLinear", ElementwiseTypes::quantize);
        rules.put("DequantizeLinear", t -> t.set(0, t.dtype(1), t.dims(0)));
        rules.put("DynamicQuantizeLinear", t -> {
            t.set(0, DType.U8, t.dims(0));
            t.set(1, DType.F32, List.of());
            t.set(2, DType.U8, List.of());
        });
        return Map.copyOf(rules);
    }

    /** Output 0 is as input 0. */
    static void same(NodeTypes t) {
        t.set(0, t.dtype(0), t.dims(0));
    }

    private static void quantize(NodeTypes t) {
        DType said =
                DType.ofOnnxId((int) t.node().intAttribute("output_dtype", 0)).orElse(null);
        DType dtype = t.node().hasInput(2) ? t.dtype(2) : said == null ? DType.U8 : said;
        t.set(0, dtype, t.dims(0));
    }

    /** The shape to which all inputs from {@code first} on broadcast; null when one is unknown. */
    private static @Nullable List<Dim> broadcast(NodeTypes t, int first) {
        List<Dim> joined = t.dims(first);
        for (int i = first + 1; i < t.node().inputs().size() && joined != null; i++) {
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
