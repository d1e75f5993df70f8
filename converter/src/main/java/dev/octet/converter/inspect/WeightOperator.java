package dev.octet.converter.inspect;

import dev.octet.formats.graph.Node;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** Operators that have a weight, of ONNX, of ONNX Runtime and Octet's own, with the inputs that it lies in. */
public enum WeightOperator {
    // the inputs with the weight, its scale and its zero point, -1 for none, then the axis that scales lie along
    MAT_MUL("", "MatMul", Kind.LINEAR, 1),
    GEMM("", "Gemm", Kind.LINEAR, 1),
    LINEAR(Node.OCTET_DOMAIN, "Linear", Kind.LINEAR, 1),
    QUANTIZED_LINEAR(Node.OCTET_DOMAIN, "QuantizedLinear", Kind.LINEAR, 1),
    CONV("", "Conv", Kind.CONVOLUTION, 1),
    CONV_TRANSPOSE("", "ConvTranspose", Kind.CONVOLUTION, 1),
    MAT_MUL_N_BITS(Domains.RUNTIME, "MatMulNBits", Kind.LINEAR, Reads.BLOCKS, 1, 2, 3, -1),
    Q_LINEAR_MAT_MUL("", "QLinearMatMul", Kind.LINEAR, Reads.CODES, 3, 4, 5, -1),
    Q_LINEAR_CONV("", "QLinearConv", Kind.CONVOLUTION, Reads.CODES, 3, 4, 5, 0),
    MAT_MUL_INTEGER("", "MatMulInteger", Kind.LINEAR, Reads.CODES, 1, -1, 3, -1),
    CONV_INTEGER("", "ConvInteger", Kind.CONVOLUTION, Reads.CODES, 1, -1, 3, 0),
    DYNAMIC_QUANTIZE_MAT_MUL(Domains.RUNTIME, "DynamicQuantizeMatMul", Kind.LINEAR, Reads.CODES, 1, 2, 3, -1),
    MAT_MUL_INTEGER_TO_FLOAT(Domains.RUNTIME, "MatMulIntegerToFloat", Kind.LINEAR, Reads.CODES, 1, 3, 5, -1),
    Q_GEMM(Domains.RUNTIME, "QGemm", Kind.LINEAR, Reads.CODES, 3, 4, 5, -1),
    Q_ATTENTION(Domains.RUNTIME, "QAttention", Kind.ATTENTION, Reads.CODES, 1, 4, 7, -1);

    /** What it computes with the weight. */
    public enum Kind {
        LINEAR,
        CONVOLUTION,
        ATTENTION
    }

    /** What its weight is. */
    public enum Reads {
        /** Floats, or what DequantizeLinear makes of codes. */
        FLOATS,
        /** Codes with scales of output channels, or one. */
        CODES,
        /** Packed codes with scales of blocks. */
        BLOCKS
    }

    private static final class Domains {
        static final String RUNTIME = "com.microsoft";
    }

    private static final Map<String, WeightOperator> BY_NAME = new HashMap<>();

    static {
        for (WeightOperator o : values()) {
            BY_NAME.put(key(o.domain, o.type), o);
        }
    }

    private final String domain;
    private final String type;
    private final Kind kind;
    private final Reads reads;
    private final int weight;
    private final int scale;
    private final int zero;
    private final long axis;

    WeightOperator(String domain, String type, Kind kind, int weight) {
        this(domain, type, kind, Reads.FLOATS, weight, -1, -1, -1);
    }

    WeightOperator(String domain, String type, Kind kind, Reads reads, int weight, int scale, int zero, long axis) {
        this.domain = domain;
        this.type = type;
        this.kind = kind;
        this.reads = reads;
        this.weight = weight;
        this.scale = scale;
        this.zero = zero;
        this.axis = axis;
    }

    private static String key(String domain, String type) {
        return domain + ":" + type;
    }

    /** That of a node; empty where it has no weight. */
    public static Optional<WeightOperator> of(Node node) {
        return Optional.ofNullable(BY_NAME.get(key(node.domain(), node.opType())));
    }

    /** What it computes with the weight. */
    public Kind kind() {
        return kind;
    }

    /** What its weight is. */
    public Reads reads() {
        return reads;
    }

    /** The input that has the weight, or its codes. */
    public int weight() {
        return weight;
    }

    /** Where codes, scales and zero points lie. */
    QuantizedConstant.Inputs inputs() {
        return new QuantizedConstant.Inputs(weight, scale, zero);
    }

    /** The axis of the weight along which scales of its output channels lie. */
    long axis() {
        return axis;
    }
}
