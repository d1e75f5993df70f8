package dev.octet.formats.op;

import static dev.octet.formats.op.AutocastClass.F32_IN_APEX;
import static dev.octet.formats.op.AutocastClass.F32_IN_LOW_MODELS;
import static dev.octet.formats.op.AutocastClass.F32_ON_BOTH;
import static dev.octet.formats.op.AutocastClass.F32_ON_CPU;
import static dev.octet.formats.op.AutocastClass.F32_ON_CPU_AND_IN_APEX;
import static dev.octet.formats.op.AutocastClass.F32_ON_GPU;
import static dev.octet.formats.op.AutocastClass.LOSS;
import static dev.octet.formats.op.AutocastClass.LOW;
import static dev.octet.formats.op.AutocastClass.LOW_IN_PYTORCH;
import static dev.octet.formats.op.AutocastClass.WIDENS_ITSELF;
import static dev.octet.formats.op.AutocastClass.WIDEST;
import static dev.octet.formats.op.Change.ALONG_ONE_AXIS;
import static dev.octet.formats.op.Change.AXES_TO_INPUT;
import static dev.octet.formats.op.Change.AXIS_TO_INPUT;
import static dev.octet.formats.op.Change.BOOLEAN_MASK;
import static dev.octet.formats.op.Change.BOUNDS_TO_INPUTS;
import static dev.octet.formats.op.Change.COORDINATE_DEFAULT;
import static dev.octet.formats.op.Change.K_TO_INPUT;
import static dev.octet.formats.op.Change.MODE_NAMES;
import static dev.octet.formats.op.Change.OUTPUT_COUNT;
import static dev.octet.formats.op.Change.PADS_TO_INPUTS;
import static dev.octet.formats.op.Change.PER_CHANNEL;
import static dev.octet.formats.op.Change.RATIO_TO_INPUT;
import static dev.octet.formats.op.Change.RENAMED_RESIZE;
import static dev.octet.formats.op.Change.RENAMED_SCATTER_ELEMENTS;
import static dev.octet.formats.op.Change.REQUIRED_AXES_TO_INPUT;
import static dev.octet.formats.op.Change.ROI_INPUT;
import static dev.octet.formats.op.Change.SIZES_TO_INPUT;
import static dev.octet.formats.op.Change.SLICES_TO_INPUTS;
import static dev.octet.formats.op.Change.TF_HALF_PIXEL_REMOVED;
import static dev.octet.formats.op.Change.TRAINING_MODE;
import static dev.octet.formats.op.OutputRule.BROADCAST;
import static dev.octet.formats.op.OutputRule.COMPARISON;
import static dev.octet.formats.op.OutputRule.OWN_RULE;
import static dev.octet.formats.op.OutputRule.PREDICATE;
import static dev.octet.formats.op.OutputRule.REDUCTION;
import static dev.octet.formats.op.OutputRule.SAME_AS_INPUT;
import static dev.octet.formats.op.OutputRule.UNKNOWN;

import dev.octet.formats.graph.Node;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Every operator of ONNX's default domain in opsets 1 to 28 and of Octet's domain, one row each: name, output rule, autocast class where it
 * is not {@link AutocastClass#WIDEST}, versions, and the changes that old nodes must be rewritten for.
 *
 * <p>Source: the <a href="https://github.com/onnx/onnx/blob/main/docs/Changelog.md">ONNX operator changelog</a>. A test compares the
 * versions with ONNX's own schema registry ({@code testdata/golden/onnx/operators.csv}).
 */
public final class OperatorTable {
    /** ONNX's operators by name, then Octet's. */
    public static final List<Operator> ALL = List.of(
            onnx("Abs", SAME_AS_INPUT, 1, 6, 13),
            onnx("Acos", SAME_AS_INPUT, F32_ON_GPU, 7, 22),
            onnx("Acosh", SAME_AS_INPUT, 9, 22),
            onnx("Add", BROADCAST, 1, 6, 7, 13, 14),
            onnx("AffineGrid", UNKNOWN, 20),
            onnx("And", BROADCAST, 1, 7),
            onnx("ArgMax", OWN_RULE, 1, 11, 12, 13),
            onnx("ArgMin", OWN_RULE, 1, 11, 12, 13),
            onnx("Asin", SAME_AS_INPUT, F32_ON_GPU, 7, 22),
            onnx("Asinh", SAME_AS_INPUT, 9, 22),
            onnx("Atan", SAME_AS_INPUT, 7, 22),
            onnx("Atanh", SAME_AS_INPUT, 9, 22),
            onnx("Attention", OWN_RULE, LOW_IN_PYTORCH, 23, 24, 25),
            onnx("AveragePool", OWN_RULE, 1, 7, 10, 11, 19, 22),
            onnx("BatchNormalization", OWN_RULE, F32_IN_LOW_MODELS, 1, 6, 7, 9, 14, 15)
                    .changed(14, TRAINING_MODE),
            onnx("Bernoulli", UNKNOWN, 15, 22),
            onnx("BitCast", UNKNOWN, 26),
            onnx("BitShift", BROADCAST, 11, 28),
            onnx("BitwiseAnd", BROADCAST, 18),
            onnx("BitwiseNot", SAME_AS_INPUT, 18),
            onnx("BitwiseOr", BROADCAST, 18),
            onnx("BitwiseXor", BROADCAST, 18),
            onnx("BlackmanWindow", UNKNOWN, 17),
            onnx("Cast", OWN_RULE, 1, 6, 9, 13, 19, 21, 23, 24, 25, 28),
            onnx("CastLike", OWN_RULE, 15, 19, 21, 23, 24, 25),
            onnx("CausalConvWithState", UNKNOWN, 27),
            onnx("Ceil", SAME_AS_INPUT, 1, 6, 13),
            onnx("Celu", SAME_AS_INPUT, 12, 28),
            onnx("CenterCropPad", UNKNOWN, 18),
            onnx("Clip", SAME_AS_INPUT, 1, 6, 11, 12, 13).changed(11, BOUNDS_TO_INPUTS),
            onnx("Col2Im", UNKNOWN, 18),
            onnx("Compress", UNKNOWN, 9, 11, 28),
            onnx("Concat", OWN_RULE, 1, 4, 11, 13),
            onnx("ConcatFromSequence", UNKNOWN, 11),
            onnx("Constant", OWN_RULE, 1, 9, 11, 12, 13, 19, 21, 23, 24, 25),
            onnx("ConstantOfShape", OWN_RULE, 9, 20, 21, 23, 24, 25),
            onnx("Conv", OWN_RULE, LOW, 1, 11, 22),
            onnx("ConvInteger", OWN_RULE, 10),
            onnx("ConvTranspose", OWN_RULE, LOW, 1, 11, 22),
            onnx("Cos", SAME_AS_INPUT, 7, 22),
            onnx("Cosh", SAME_AS_INPUT, F32_ON_GPU, 9, 22),
            onnx("CumProd", SAME_AS_INPUT, 26),
            onnx("CumSum", SAME_AS_INPUT, F32_ON_GPU, 11, 14),
            onnx("DFT", UNKNOWN, F32_ON_CPU, 17, 20).changed(20, AXIS_TO_INPUT),
            onnx("DeformConv", UNKNOWN, 19, 22),
            onnx("DepthToSpace", OWN_RULE, 1, 11, 13, 28),
            onnx("DequantizeLinear", OWN_RULE, 10, 13, 19, 21, 23, 24, 25, 28),
            onnx("Det", UNKNOWN, F32_ON_CPU, 11, 22),
            onnx("Div", BROADCAST, 1, 6, 7, 13, 14),
            onnx("Dropout", OWN_RULE, 1, 6, 7, 10, 12, 13, 22)
                    .changed(10, BOOLEAN_MASK)
                    .changed(12, RATIO_TO_INPUT),
            onnx("DynamicQuantizeLinear", OWN_RULE, 11),
            onnx("Einsum", OWN_RULE, LOW, 12, 28),
            onnx("Elu", SAME_AS_INPUT, 1, 6, 22),
            onnx("Equal", COMPARISON, 1, 7, 11, 13, 19),
            onnx("Erf", SAME_AS_INPUT, 9, 13),
            onnx("Exp", SAME_AS_INPUT, F32_ON_GPU, 1, 6, 13),
            onnx("Expand", OWN_RULE, 8, 13),
            onnx("EyeLike", OWN_RULE, 9, 22),
            onnx("Flatten", OWN_RULE, 1, 9, 11, 13, 21, 23, 24, 25),
            onnx("Floor", SAME_AS_INPUT, 1, 6, 13),
            onnx("GRU", OWN_RULE, 1, 3, 7, 14, 22),
            onnx("Gather", OWN_RULE, 1, 11, 13),
            onnx("GatherElements", OWN_RULE, 11, 13),
            onnx("GatherND", OWN_RULE, 11, 12, 13),
            onnx("Gelu", SAME_AS_INPUT, F32_IN_APEX, 20),
            onnx("Gemm", OWN_RULE, LOW, 1, 6, 7, 9, 11, 13),
            onnx("GlobalAveragePool", OWN_RULE, 1, 22),
            onnx("GlobalLpPool", OWN_RULE, 1, 2, 22),
            onnx("GlobalMaxPool", OWN_RULE, 1, 22),
            onnx("Greater", COMPARISON, 1, 7, 9, 13),
            onnx("GreaterOrEqual", COMPARISON, 12, 16),
            onnx("GridSample", UNKNOWN, F32_ON_CPU_AND_IN_APEX, 16, 20, 22).changed(20, MODE_NAMES),
            onnx("GroupNormalization", SAME_AS_INPUT, F32_ON_GPU, 18, 21).changed(21, PER_CHANNEL),
            onnx("HammingWindow", UNKNOWN, 17),
            onnx("HannWindow", UNKNOWN, 17),
            onnx("HardSigmoid", SAME_AS_INPUT, 1, 6, 22),
            onnx("HardSwish", SAME_AS_INPUT, 14, 22),
            onnx("Hardmax", SAME_AS_INPUT, 1, 11, 13).changed(13, ALONG_ONE_AXIS),
            onnx("Identity", SAME_AS_INPUT, 1, 13, 14, 16, 19, 21, 23, 24, 25),
            onnx("If", UNKNOWN, 1, 11, 13, 16, 19, 21, 23, 24, 25),
            onnx("ImageDecoder", UNKNOWN, 20),
            onnx("InstanceNormalization", SAME_AS_INPUT, 1, 6, 22),
            onnx("IsInf", PREDICATE, 10, 20),
            onnx("IsNaN", PREDICATE, 9, 13, 20),
            onnx("LRN", SAME_AS_INPUT, F32_IN_APEX, 1, 13),
            onnx("LSTM", OWN_RULE, 1, 7, 14, 22),
            onnx("LayerNormalization", OWN_RULE, F32_ON_GPU, 17),
            onnx("LeakyRelu", SAME_AS_INPUT, 1, 6, 16),
            onnx("Less", COMPARISON, 1, 7, 9, 13),
            onnx("LessOrEqual", COMPARISON, 12, 16),
            onnx("LinearAttention", UNKNOWN, 27),
            onnx("Log", SAME_AS_INPUT, F32_ON_GPU, 1, 6, 13),
            onnx("LogSoftmax", SAME_AS_INPUT, F32_ON_GPU, 1, 11, 13).changed(13, ALONG_ONE_AXIS),
            onnx("Loop", UNKNOWN, 1, 11, 13, 16, 19, 21, 23, 24, 25),
            onnx("LpNormalization", SAME_AS_INPUT, F32_ON_GPU, 1, 22),
            onnx("LpPool", OWN_RULE, 1, 2, 11, 18, 22),
            onnx("MatMul", OWN_RULE, LOW, 1, 9, 13),
            onnx("MatMulInteger", OWN_RULE, 10),
            onnx("Max", BROADCAST, 1, 6, 8, 12, 13),
            onnx("MaxPool", OWN_RULE, 1, 8, 10, 11, 12, 22),
            onnx("MaxRoiPool", UNKNOWN, 1, 22),
            onnx("MaxUnpool", UNKNOWN, 9, 11, 22),
            onnx("Mean", BROADCAST, 1, 6, 8, 13),
            onnx("MeanVarianceNormalization", SAME_AS_INPUT, 9, 13),
            onnx("MelWeightMatrix", UNKNOWN, 17),
            onnx("Min", BROADCAST, 1, 6, 8, 12, 13),
            onnx("Mish", SAME_AS_INPUT, 18, 22),
            onnx("Mod", BROADCAST, 10, 13, 28),
            onnx("Mul", BROADCAST, 1, 6, 7, 13, 14),
            onnx("Multinomial", UNKNOWN, 7, 22),
            onnx("Neg", SAME_AS_INPUT, 1, 6, 13),
            onnx("NegativeLogLikelihoodLoss", UNKNOWN, LOSS, 12, 13, 22),
            onnx("NonMaxSuppression", UNKNOWN, 10, 11),
            onnx("NonZero", OWN_RULE, 9, 13),
            onnx("Not", PREDICATE, 1),
            onnx("OneHot", OWN_RULE, 9, 11, 28),
            onnx("Optional", UNKNOWN, 15, 28),
            onnx("OptionalGetElement", UNKNOWN, 15, 18, 28),
            onnx("OptionalHasElement", UNKNOWN, 15, 18, 28),
            onnx("Or", BROADCAST, 1, 7),
            onnx("PRelu", SAME_AS_INPUT, LOW, 1, 6, 7, 9, 16),
            onnx("Pad", OWN_RULE, F32_ON_CPU, 1, 2, 11, 13, 18, 19, 21, 23, 24, 25)
                    .changed(11, PADS_TO_INPUTS),
            onnx("Pow", BROADCAST, F32_ON_GPU, 1, 7, 12, 13, 15),
            onnx("QLinearConv", OWN_RULE, 10),
            onnx("QLinearMatMul", OWN_RULE, 10, 21),
            onnx("QuantizeLinear", OWN_RULE, 10, 13, 19, 21, 23, 24, 25, 28),
            onnx("RMSNormalization", SAME_AS_INPUT, 23),
            onnx("RNN", OWN_RULE, 1, 7, 14, 22),
            onnx("RandomNormal", UNKNOWN, 1, 22),
            onnx("RandomNormalLike", UNKNOWN, 1, 22),
            onnx("RandomUniform", UNKNOWN, 1, 22),
            onnx("RandomUniformLike", UNKNOWN, 1, 22),
            onnx("Range", OWN_RULE, 11, 27),
            onnx("Reciprocal", SAME_AS_INPUT, F32_ON_GPU, 1, 6, 13),
            onnx("ReduceL1", REDUCTION, F32_ON_GPU, 1, 11, 13, 18).changed(18, AXES_TO_INPUT),
            onnx("ReduceL2", REDUCTION, F32_ON_GPU, 1, 11, 13, 18).changed(18, AXES_TO_INPUT),
            onnx("ReduceLogSum", REDUCTION, F32_ON_GPU, 1, 11, 13, 18, 28).changed(18, AXES_TO_INPUT),
            onnx("ReduceLogSumExp", REDUCTION, F32_ON_GPU, 1, 11, 13, 18, 28).changed(18, AXES_TO_INPUT),
            onnx("ReduceMax", REDUCTION, 1, 11, 12, 13, 18, 20).changed(18, AXES_TO_INPUT),
            onnx("ReduceMean", REDUCTION, 1, 11, 13, 18).changed(18, AXES_TO_INPUT),
            onnx("ReduceMin", REDUCTION, 1, 11, 12, 13, 18, 20).changed(18, AXES_TO_INPUT),
            onnx("ReduceProd", REDUCTION, F32_ON_BOTH, 1, 11, 13, 18).changed(18, AXES_TO_INPUT),
            onnx("ReduceSum", REDUCTION, F32_ON_GPU, 1, 11, 13).changed(13, AXES_TO_INPUT),
            onnx("ReduceSumSquare", REDUCTION, F32_ON_GPU, 1, 11, 13, 18).changed(18, AXES_TO_INPUT),
            onnx("RegexFullMatch", UNKNOWN, 20),
            onnx("Relu", SAME_AS_INPUT, 1, 6, 13, 14),
            onnx("Reshape", OWN_RULE, 1, 5, 13, 14, 19, 21, 23, 24, 25),
            onnx("Resize", OWN_RULE, F32_IN_APEX, 10, 11, 13, 18, 19)
                    .changed(11, ROI_INPUT)
                    .changed(13, TF_HALF_PIXEL_REMOVED),
            onnx("ReverseSequence", UNKNOWN, 10, 28),
            onnx("RoiAlign", UNKNOWN, 10, 16, 22).changed(16, COORDINATE_DEFAULT),
            onnx("RotaryEmbedding", SAME_AS_INPUT, 23),
            onnx("Round", SAME_AS_INPUT, 11, 22),
            onnx("STFT", UNKNOWN, 17),
            onnx("Scan", UNKNOWN, 8, 9, 11, 16, 19, 21, 23, 24, 25),
            onnx("Scatter", SAME_AS_INPUT, 9, 11).changed(11, RENAMED_SCATTER_ELEMENTS),
            onnx("ScatterElements", SAME_AS_INPUT, 11, 13, 16, 18),
            onnx("ScatterND", SAME_AS_INPUT, 11, 13, 16, 18),
            onnx("Selu", SAME_AS_INPUT, 1, 6, 22),
            onnx("SequenceAt", UNKNOWN, 11),
            onnx("SequenceConstruct", UNKNOWN, 11),
            onnx("SequenceEmpty", UNKNOWN, 11),
            onnx("SequenceErase", UNKNOWN, 11),
            onnx("SequenceInsert", UNKNOWN, 11),
            onnx("SequenceLength", UNKNOWN, 11),
            onnx("SequenceMap", UNKNOWN, 17),
            onnx("Shape", OWN_RULE, 1, 13, 15, 19, 21, 23, 24, 25),
            onnx("Shrink", SAME_AS_INPUT, 9),
            onnx("Sigmoid", SAME_AS_INPUT, 1, 6, 13),
            onnx("Sign", SAME_AS_INPUT, 9, 13),
            onnx("Sin", SAME_AS_INPUT, 7, 22),
            onnx("Sinh", SAME_AS_INPUT, F32_ON_GPU, 9, 22),
            onnx("Size", OWN_RULE, 1, 13, 19, 21, 23, 24, 25),
            onnx("Slice", OWN_RULE, 1, 10, 11, 13).changed(10, SLICES_TO_INPUTS),
            onnx("Softmax", SAME_AS_INPUT, F32_ON_GPU, 1, 11, 13).changed(13, ALONG_ONE_AXIS),
            onnx("SoftmaxCrossEntropyLoss", UNKNOWN, LOSS, 12, 13),
            onnx("Softplus", SAME_AS_INPUT, F32_ON_GPU, 1, 22),
            onnx("Softsign", SAME_AS_INPUT, 1, 22),
            onnx("SpaceToDepth", OWN_RULE, 1, 13, 28),
            onnx("Split", OWN_RULE, 1, 2, 11, 13, 18)
                    .changed(13, SIZES_TO_INPUT)
                    .changed(18, OUTPUT_COUNT),
            onnx("SplitToSequence", UNKNOWN, 11, 24),
            onnx("Sqrt", SAME_AS_INPUT, 1, 6, 13),
            onnx("Squeeze", OWN_RULE, 1, 11, 13, 21, 23, 24, 25).changed(13, AXES_TO_INPUT),
            onnx("StringConcat", UNKNOWN, 20),
            onnx("StringNormalizer", UNKNOWN, 10),
            onnx("StringSplit", UNKNOWN, 20),
            onnx("Sub", BROADCAST, 1, 6, 7, 13, 14),
            onnx("Sum", BROADCAST, 1, 6, 8, 13),
            onnx("SwiGLU", UNKNOWN, 28),
            onnx("Swish", SAME_AS_INPUT, 24),
            onnx("Tan", SAME_AS_INPUT, F32_ON_GPU, 7, 22),
            onnx("Tanh", SAME_AS_INPUT, 1, 6, 13),
            onnx("TensorScatter", UNKNOWN, 24),
            onnx("TfIdfVectorizer", UNKNOWN, 9),
            onnx("ThresholdedRelu", SAME_AS_INPUT, 10, 22),
            onnx("Tile", OWN_RULE, 1, 6, 13),
            onnx("TopK", OWN_RULE, 1, 10, 11, 24).changed(10, K_TO_INPUT),
            onnx("Transpose", OWN_RULE, 1, 13, 21, 23, 24, 25),
            onnx("Trilu", SAME_AS_INPUT, 14),
            onnx("Unique", UNKNOWN, 11, 28),
            onnx("Unsqueeze", OWN_RULE, 1, 11, 13, 21, 23, 24, 25).changed(13, REQUIRED_AXES_TO_INPUT),
            onnx("Upsample", OWN_RULE, 1, 7, 9, 10).changed(10, RENAMED_RESIZE),
            onnx("Where", OWN_RULE, 9, 16),
            onnx("Xor", BROADCAST, 1, 7),
            // --- Octet's own
            octet("Linear", OWN_RULE, LOW),
            octet("ExpertRows", OWN_RULE, WIDENS_ITSELF),
            octet("ExpertSum", OWN_RULE, WIDENS_ITSELF),
            octet("ExpertDispatch", OWN_RULE, WIDENS_ITSELF),
            octet("ExpertCombine", OWN_RULE, WIDENS_ITSELF),
            octet("GroupedLinear", OWN_RULE, LOW),
            octet("LayerNormalization", SAME_AS_INPUT, F32_ON_GPU),
            octet("RMSNormalization", SAME_AS_INPUT, WIDEST),
            octet("Gelu", SAME_AS_INPUT, F32_IN_APEX),
            octet("Detach", SAME_AS_INPUT, WIDEST),
            octet("Dropout", SAME_AS_INPUT, WIDEST),
            octet("GradientQuantize", SAME_AS_INPUT, WIDEST),
            octet("GridQuantize", SAME_AS_INPUT, WIDENS_ITSELF),
            octet("QuantizingLayerNorm", UNKNOWN, WIDEST),
            octet("QuantizedLinear", UNKNOWN, WIDEST),
            octet("QuantizedProduct", UNKNOWN, WIDEST),
            octet("Quantize", UNKNOWN, WIDEST),
            octet("QuantizeDynamic", UNKNOWN, WIDEST),
            octet("QuantizingRmsNorm", UNKNOWN, WIDEST),
            octet("CutGather", UNKNOWN, WIDEST),
            octet("RankExchange", UNKNOWN, WIDEST),
            octet("CosineLoss", UNKNOWN, WIDENS_ITSELF),
            octet("CutCrossEntropyLoss", UNKNOWN, WIDENS_ITSELF),
            octet("KlDivergenceLoss", UNKNOWN, WIDENS_ITSELF),
            octet("MeanSquaredErrorLoss", UNKNOWN, WIDENS_ITSELF),
            octet("MixedLoss", UNKNOWN, WIDENS_ITSELF),
            octet("SoftmaxCrossEntropyLoss", UNKNOWN, WIDENS_ITSELF));

    private static final Map<String, Operator> BY_NAME = byName();

    private OperatorTable() {}

    private static Operator onnx(String name, OutputRule output, Integer... versions) {
        return onnx(name, output, WIDEST, versions);
    }

    private static Operator onnx(String name, OutputRule output, AutocastClass autocast, Integer... versions) {
        return new Operator("", name, output, autocast, Arrays.asList(versions), Map.of());
    }

    private static Operator octet(String name, OutputRule output, AutocastClass autocast) {
        return new Operator(Node.OCTET_DOMAIN, name, output, autocast, List.of(1), Map.of());
    }

    private static Map<String, Operator> byName() {
        Map<String, Operator> map = new HashMap<>();
        for (Operator o : ALL) {
            if (map.put(o.domain() + ":" + o.name(), o) != null) {
                throw new IllegalStateException("two rows for " + o.name());
            }
        }
        return Map.copyOf(map);
    }

    /** The row of an operator; empty for one that neither domain has. */
    public static Optional<Operator> of(String domain, String name) {
        return Optional.ofNullable(BY_NAME.get(domain + ":" + name));
    }

    /** The row of a node's operator; empty for one that neither domain has. */
    public static Optional<Operator> of(Node node) {
        return of(node.domain(), node.opType());
    }
}
