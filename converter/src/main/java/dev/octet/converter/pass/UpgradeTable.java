package dev.octet.converter.pass;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * Every change of every operator of the default domain in opsets 10 to 21: either a rule, or named here as one that leaves the
 * meaning of old nodes alone (more types, a new attribute or input whose default is the old behaviour, clearer words).
 *
 * <p>Source: <a href="https://github.com/onnx/onnx/blob/main/docs/Changelog.md">ONNX operator changelog</a>. A test compares
 * this table with the list of versions that ONNX itself gives out.
 */
final class UpgradeTable {
    /** Operators with the versions that old nodes need no change for; without versions: never changed in 10 to 21. */
    private static final String UNCHANGED = """
        Abs 13
        Acos
        Acosh
        Add 13 14
        AffineGrid
        And
        ArgMax 11 12 13
        ArgMin 11 12 13
        Asin
        Asinh
        Atan
        Atanh
        AveragePool 10 11 19
        BatchNormalization 15
        Bernoulli
        BitShift
        BitwiseAnd
        BitwiseNot
        BitwiseOr
        BitwiseXor
        BlackmanWindow
        Cast 13 19 21
        CastLike 19 21
        Ceil 13
        Celu
        CenterCropPad
        Clip 12 13
        Col2Im
        Compress 11
        Concat 11 13
        ConcatFromSequence
        Constant 11 12 13 19 21
        ConstantOfShape 20 21
        Conv 11
        ConvInteger
        ConvTranspose 11
        Cos
        Cosh
        CumSum 14
        DeformConv
        DepthToSpace 11 13
        DequantizeLinear 13 19 21
        Det
        Div 13 14
        Dropout 13
        DynamicQuantizeLinear
        Einsum
        Elu
        Equal 11 13 19
        Erf 13
        Exp 13
        Expand 13
        EyeLike
        Flatten 11 13 21
        Floor 13
        GRU 14
        Gather 11 13
        GatherElements 13
        GatherND 12 13
        Gelu
        Gemm 11 13
        GlobalAveragePool
        GlobalLpPool
        GlobalMaxPool
        Greater 13
        GreaterOrEqual 16
        HammingWindow
        HannWindow
        HardSigmoid
        HardSwish
        Hardmax 11
        Identity 13 14 16 19 21
        If 11 13 16 19 21
        ImageDecoder
        InstanceNormalization
        IsInf 20
        IsNaN 13 20
        LRN 13
        LSTM 14
        LayerNormalization
        LeakyRelu 16
        Less 13
        LessOrEqual 16
        Log 13
        LogSoftmax 11
        Loop 11 13 16 19 21
        LpNormalization
        LpPool 11 18
        MatMul 13
        MatMulInteger
        Max 12 13
        MaxPool 10 11 12
        MaxRoiPool
        MaxUnpool 11
        Mean 13
        MeanVarianceNormalization 13
        MelWeightMatrix
        Min 12 13
        Mish
        Mod 13
        Mul 13 14
        Multinomial
        Neg 13
        NegativeLogLikelihoodLoss 13
        NonMaxSuppression 11
        NonZero 13
        Not
        OneHot 11
        Optional
        OptionalGetElement 18
        OptionalHasElement 18
        Or
        PRelu 16
        Pad 13 18 19 21
        Pow 12 13 15
        QLinearConv
        QLinearMatMul 21
        QuantizeLinear 13 19 21
        RNN 14
        RandomNormal
        RandomNormalLike
        RandomUniform
        RandomUniformLike
        Range
        Reciprocal 13
        ReduceL1 11 13
        ReduceL2 11 13
        ReduceLogSum 11 13
        ReduceLogSumExp 11 13
        ReduceMax 11 12 13 20
        ReduceMean 11 13
        ReduceMin 11 12 13 20
        ReduceProd 11 13
        ReduceSum 11
        ReduceSumSquare 11 13
        RegexFullMatch
        Relu 13 14
        Reshape 13 14 19 21
        Resize 18 19
        ReverseSequence
        Round
        STFT
        Scan 11 16 19 21
        ScatterElements 13 16 18
        ScatterND 13 16 18
        Selu
        SequenceAt
        SequenceConstruct
        SequenceEmpty
        SequenceErase
        SequenceInsert
        SequenceLength
        SequenceMap
        Shape 13 15 19 21
        Shrink
        Sigmoid 13
        Sign 13
        Sin
        Sinh
        Size 13 19 21
        Slice 11 13
        Softmax 11
        SoftmaxCrossEntropyLoss 13
        Softplus
        Softsign
        SpaceToDepth 13
        Split 11
        SplitToSequence
        Sqrt 13
        Squeeze 11 21
        StringConcat
        StringNormalizer
        StringSplit
        Sub 13 14
        Sum 13
        Tan
        Tanh 13
        TfIdfVectorizer
        ThresholdedRelu
        Tile 13
        TopK 11
        Transpose 13 21
        Trilu
        Unique
        Unsqueeze 11 21
        Where 16
        Xor
        """;

    private static final String AXES = "attribute axes becomes an input";
    private static final String PER_AXIS = "works along one axis, no longer on the tensor seen as a matrix";

    /** Changes that old nodes must be rewritten for. */
    private static final List<UpgradeRule> RULES = List.of(
            new UpgradeRule(
                    "BatchNormalization",
                    14,
                    "training outputs go, training_mode comes",
                    UpgradeRewrites::batchNormalization),
            new UpgradeRule("Clip", 11, "attributes min and max become inputs", UpgradeRewrites::clip),
            new UpgradeRule("DFT", 20, "attribute axis becomes an input", UpgradeRewrites::dft),
            new UpgradeRule("Dropout", 10, "the mask becomes truth values", UpgradeRewrites::dropoutMask),
            new UpgradeRule("Dropout", 12, "attribute ratio becomes an input", UpgradeRewrites::dropoutRatio),
            new UpgradeRule("GridSample", 20, "modes bilinear and bicubic get new names", UpgradeRewrites::gridSample),
            new UpgradeRule(
                    "GroupNormalization",
                    21,
                    "scale and bias are per channel, not per group",
                    UpgradeRewrites::groupNormalization),
            new UpgradeRule("Hardmax", 13, PER_AXIS, UpgradeRewrites::softmax),
            new UpgradeRule("LogSoftmax", 13, PER_AXIS, UpgradeRewrites::softmax),
            new UpgradeRule("Pad", 11, "attributes pads and value become inputs", UpgradeRewrites::pad),
            new UpgradeRule("ReduceL1", 18, AXES, UpgradeRewrites::axes),
            new UpgradeRule("ReduceL2", 18, AXES, UpgradeRewrites::axes),
            new UpgradeRule("ReduceLogSum", 18, AXES, UpgradeRewrites::axes),
            new UpgradeRule("ReduceLogSumExp", 18, AXES, UpgradeRewrites::axes),
            new UpgradeRule("ReduceMax", 18, AXES, UpgradeRewrites::axes),
            new UpgradeRule("ReduceMean", 18, AXES, UpgradeRewrites::axes),
            new UpgradeRule("ReduceMin", 18, AXES, UpgradeRewrites::axes),
            new UpgradeRule("ReduceProd", 18, AXES, UpgradeRewrites::axes),
            new UpgradeRule("ReduceSum", 13, AXES, UpgradeRewrites::axes),
            new UpgradeRule("ReduceSumSquare", 18, AXES, UpgradeRewrites::axes),
            new UpgradeRule(
                    "Resize",
                    11,
                    "roi comes in between, the way to map coordinates must be said",
                    UpgradeRewrites::resize),
            new UpgradeRule("Resize", 13, "tf_half_pixel_for_nn goes", UpgradeRewrites::resizeModes),
            new UpgradeRule("RoiAlign", 16, "the default way to map coordinates changes", UpgradeRewrites::roiAlign),
            new UpgradeRule("Scatter", 11, "is now called ScatterElements", UpgradeRewrites::scatter),
            new UpgradeRule("Slice", 10, "attributes starts, ends and axes become inputs", UpgradeRewrites::slice),
            new UpgradeRule("Softmax", 13, PER_AXIS, UpgradeRewrites::softmax),
            new UpgradeRule("Split", 13, "attribute split becomes an input", UpgradeRewrites::splitSizes),
            new UpgradeRule("Split", 18, "num_outputs must be given where sizes are not", UpgradeRewrites::splitCount),
            new UpgradeRule("Squeeze", 13, AXES, UpgradeRewrites::axes),
            new UpgradeRule("TopK", 10, "attribute k becomes an input", UpgradeRewrites::topK),
            new UpgradeRule("Unsqueeze", 13, AXES, UpgradeRewrites::requiredAxes),
            new UpgradeRule("Upsample", 10, "is now called Resize", UpgradeRewrites::upsample));

    private static final Map<String, NavigableMap<Integer, UpgradeRule>> TABLE = build();

    private UpgradeTable() {}

    private static Map<String, NavigableMap<Integer, UpgradeRule>> build() {
        Map<String, NavigableMap<Integer, UpgradeRule>> table = new HashMap<>();
        UNCHANGED.lines().forEach(line -> {
            String[] words = line.split(" ");
            NavigableMap<Integer, UpgradeRule> row = table.computeIfAbsent(words[0], k -> new TreeMap<>());
            Arrays.stream(words)
                    .skip(1)
                    .map(Integer::valueOf)
                    .forEach(version -> put(
                            row,
                            new UpgradeRule(
                                    words[0], version, "nothing that concerns old nodes", (n, s) -> List.of(n))));
        });
        RULES.forEach(rule -> put(table.computeIfAbsent(rule.op(), k -> new TreeMap<>()), rule));
        return table;
    }

    private static void put(NavigableMap<Integer, UpgradeRule> row, UpgradeRule rule) {
        if (row.put(rule.version(), rule) != null) {
            throw new IllegalStateException(rule.op() + " " + rule.version() + " is in the table twice");
        }
    }

    /** Whether {@code op} is an operator of the default domain that the table knows. */
    static boolean knows(String op) {
        return TABLE.containsKey(op);
    }

    /** The first change of {@code op} after {@code version}; null when there is none. */
    static @Nullable UpgradeRule next(String op, long version) {
        NavigableMap<Integer, UpgradeRule> row = TABLE.get(op);
        var entry = row == null ? null : row.higherEntry((int) version);
        return entry == null ? null : entry.getValue();
    }

    /** All operators of the table. */
    static Set<String> operators() {
        return TABLE.keySet();
    }

    /** The versions of {@code op} that the table has a row for. */
    static Set<Integer> versions(String op) {
        return TABLE.getOrDefault(op, new TreeMap<>()).keySet();
    }
}
