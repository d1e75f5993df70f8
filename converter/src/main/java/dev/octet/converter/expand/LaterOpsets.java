package dev.octet.converter.expand;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.op.Operator;
import dev.octet.formats.op.OperatorTable;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * What ONNX's default domain gained after opset 21, up to 28: operators ({@link OperatorTable}) and, from the operator schemas of onnx
 * 1.23, attributes, inputs and number types. Everything else means the same in all of these versions.
 *
 * @param target the opset that nodes are to be valid in
 */
record LaterOpsets(int target) {
    /** The opset that an attribute of an older operator came with. */
    private static final Map<String, Integer> ATTRIBUTES = Map.of(
            "DequantizeLinear.output_dtype", 23,
            "QuantizeLinear.precision", 23,
            "Cast.round_mode", 24,
            "CastLike.round_mode", 24,
            "Attention.left_window_size", 25,
            "Attention.right_window_size", 25,
            "Range.stash_type", 27,
            "SpaceToDepth.mode", 28);

    /** The opset that tensors of a number type came with. */
    private static final Map<DType, Integer> TYPES = Map.of(
            DType.F4_E2M1, 23,
            DType.F8_E8M0, 24,
            DType.I2, 25,
            DType.U2, 25,
            DType.F6_E2M3, 28,
            DType.F6_E3M2, 28);

    /** Operators that took further number types, and the opset that these came with. */
    private record Widened(int opset, Set<DType> types, Set<String> operators) {}

    private static final Set<DType> BFLOAT16 = Set.of(DType.BF16);

    private static final List<Widened> WIDENED = List.of(
            new Widened(22, BFLOAT16, words("""
                Acos Acosh Asin Asinh Atan Atanh AveragePool Bernoulli Conv ConvTranspose Cos Cosh DeformConv Det Dropout
                Elu EyeLike GRU GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample HardSigmoid HardSwish
                InstanceNormalization LSTM LpNormalization LpPool MaxPool MaxRoiPool MaxUnpool Mish Multinomial
                NegativeLogLikelihoodLoss RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike RoiAlign
                Round Selu Sin Sinh Softplus Softsign Tan ThresholdedRelu\
                """)),
            new Widened(
                    22,
                    Set.of(DType.F8_E4M3FN, DType.F8_E4M3FNUZ, DType.F8_E5M2, DType.F8_E5M2FNUZ),
                    Set.of("Dropout")),
            new Widened(24, BFLOAT16, Set.of("SplitToSequence", "TopK")),
            new Widened(27, Set.of(DType.BF16, DType.F16), Set.of("Range")),
            new Widened(28, BFLOAT16, Set.of("Compress", "Einsum", "OneHot", "ReverseSequence", "Unique")),
            new Widened(28, Set.of(DType.BF16, DType.F16, DType.F64), Set.of("Celu")),
            new Widened(28, Set.of(DType.I8, DType.I16, DType.I32, DType.I64), Set.of("BitShift")),
            new Widened(
                    28,
                    Set.of(
                            DType.BF16,
                            DType.F8_E4M3FN,
                            DType.F8_E4M3FNUZ,
                            DType.F8_E5M2,
                            DType.F8_E5M2FNUZ,
                            DType.I4,
                            DType.U4),
                    Set.of("Optional", "OptionalGetElement", "OptionalHasElement")));

    /** From here on, windows that start in the padding at the end do not belong to a pool's output. */
    private static final int POOLS_LEAVE_PADDING = 22;

    private static final int MASKS_OF_ANY_LENGTH = 24;
    private static final int SCALES_OF_ANOTHER_TYPE = 23;
    private static final int NONPAD_INPUT = 6;

    private static Set<String> words(String text) {
        return Set.copyOf(Pattern.compile("\\s+").splitAsStream(text).toList());
    }

    /** The IR version that came with an opset (onnx/helper.py, VERSION_TABLE). */
    static long irVersion(int opset) {
        return switch (opset) {
            case 21, 22 -> 10;
            case 23 -> 11;
            case 24 -> 12;
            default -> 13;
        };
    }

    /**
     * The part of a node that is newer than the target, in words; null when the node is valid.
     *
     * @param analysis of the graph that the node is in; null when nothing is known of its values
     */
    @Nullable
    String problem(Node n, @Nullable Analysis analysis) {
        if (!n.domain().isEmpty()) {
            return null;
        }
        int since = OperatorTable.of(n).map(Operator::since).orElse(0);
        if (since > target) {
            return "came with opset " + since;
        }
        for (String attribute : n.attributes().keySet()) {
            Integer with = ATTRIBUTES.get(n.opType() + "." + attribute);
            if (with != null && with > target) {
                return "has the attribute " + attribute + ", which came with opset " + with;
            }
        }
        if (n.is("Attention") && n.hasInput(NONPAD_INPUT) && target < MASKS_OF_ANY_LENGTH) {
            return "has the input nonpad_kv_seqlen, which came with opset " + MASKS_OF_ANY_LENGTH;
        }
        return analysis == null ? null : typeProblem(n, analysis);
    }

    private @Nullable String typeProblem(Node n, Analysis analysis) {
        List<String> values = new ArrayList<>(n.inputs());
        values.addAll(n.outputs());
        for (Widened w : WIDENED) {
            if (w.opset() > target && w.operators().contains(n.opType())) {
                for (String value : values) {
                    DType dtype = analysis.dtype(value);
                    if (dtype != null && w.types().contains(dtype)) {
                        return "works on " + dtype + ", which it does from opset " + w.opset() + " on";
                    }
                }
            }
        }
        if (target < POOLS_LEAVE_PADDING && PoolingRewrite.countsMoreBefore(n, analysis)) {
            return "leaves out windows that start in the padding, as pools do from opset " + POOLS_LEAVE_PADDING
                    + " on";
        }
        DType x = n.is("QuantizeLinear") && n.hasInput(1) ? analysis.dtype(n.input(0)) : null;
        DType scale = x == null ? null : analysis.dtype(n.input(1));
        if (scale != null && scale != x && target < SCALES_OF_ANOTHER_TYPE) {
            return "has a scale of another type than x, which came with opset " + SCALES_OF_ANOTHER_TYPE;
        }
        return null;
    }

    /**
     * Checks the types of all values of a graph.
     *
     * @throws UnsupportedModelException when there is one that the target does not know
     */
    void checkTypes(Graph g, Analysis analysis) {
        g.initializers().forEach((name, i) -> checkType(name, type(i)));
        g.inputs().forEach(v -> checkType(v.name(), analysis.dtype(v.name())));
        for (Node n : g.nodes()) {
            n.outputs().forEach(v -> checkType(v, analysis.dtype(v)));
        }
    }

    private static @Nullable DType type(Initializer i) {
        return switch (i.data()) {
            case Initializer.Dense d -> d.tensor().dtype();
            case Initializer.Coded c -> c.tensor().spec().dtype();
            case Initializer.Opaque o -> DType.ofOnnxId(o.elementType()).orElse(null);
            case Initializer.Sparse s -> s.values().dtype();
            case Initializer.Strings _ -> null;
        };
    }

    private void checkType(String value, @Nullable DType dtype) {
        Integer since = dtype == null ? null : TYPES.get(dtype);
        if (since != null && since > target) {
            throw new UnsupportedModelException(
                    "'" + value + "' is " + dtype + ", which came with opset " + since,
                    "value '" + value + "', to be written at opset " + target,
                    "choose another number type, or keep the model at its opset");
        }
    }

    /**
     * Checks a graph in which nothing can be replaced, and the graphs inside it.
     *
     * @throws UnsupportedModelException when it has a node that is not valid in the target
     */
    void checkNested(Graph g, @Nullable Analysis outer, String where) {
        Analysis analysis = outer == null ? null : Analysis.of(g, outer.opset(), outer);
        if (analysis != null) {
            checkTypes(g, analysis);
        }
        for (Node n : g.nodes()) {
            String newer = problem(n, analysis);
            if (newer != null) {
                throw new UnsupportedModelException(
                        "operator " + n.opType() + " " + newer + ", and is in " + where,
                        "node '" + n.id() + "', to be written at opset " + target,
                        "choose a later opset, or export the model without subgraphs and functions");
            }
            n.subgraphs().forEach(s -> checkNested(s, analysis, where));
        }
    }

    /** The error for a node that cannot be written in the target opset. */
    UnsupportedModelException refused(Node n, String problem) {
        return new UnsupportedModelException(
                "operator " + n.opType() + " " + problem + ", and no older operators that do the same are known",
                "node '" + n.id() + "', to be written at opset " + target,
                target < 23
                        ? "write it with --opset 23, or export the model without it"
                        : "export the model without it");
    }
}
