package dev.octet.converter.inspect;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Codes, scales and zero points that a node of an ONNX graph joins to a weight: {@code value = (code - zero point) * scale}.
 *
 * @param node the operator that reads the codes
 * @param codes a constant in the shape of the values; four-bit codes two to a byte, the lower half first
 * @param scale a constant
 * @param zeroPoint a constant; null without one
 * @param granularity which elements share a scale; null where the shapes do not fit
 * @param inputs where the node has the codes, the scale and the zero point
 */
public record QuantizedConstant(
        Node node,
        Tensor codes,
        Tensor scale,
        @Nullable Tensor zeroPoint,
        @Nullable Granularity granularity,
        Inputs inputs) {
    /**
     * Numbers of inputs of a node.
     *
     * @param scale -1 where the scale is an input of another node
     * @param zero -1 where the operator has no zero points
     */
    public record Inputs(int codes, int scale, int zero) {}

    private static final int HALF_BYTE = 4;

    /** Name of the codes, which is the weight's where Octet quantised it. */
    public String name() {
        return codes.name();
    }

    /** Names of the constants with its scales and zero points. */
    public List<String> scaleNames() {
        return zeroPoint == null ? List.of(scale.name()) : List.of(scale.name(), zeroPoint.name());
    }

    /** Whether the node is MatMulNBits of ONNX Runtime, whose zero points are in rows of whole bytes, and 8 or 128 where there are none. */
    private boolean isMatMulNBits() {
        return node.opType().equals("MatMulNBits");
    }

    /** Why the values cannot be told; empty where they can. */
    public Optional<String> problem() {
        if (granularity == null || !List.of(DType.F32, DType.F16, DType.BF16).contains(scale.dtype())) {
            return Optional.of("a scale " + scale.spec() + " that does not fit codes " + codes.shape());
        }
        Tensor zero = zeroPoint;
        if (zero != null && zero.dtype() != codes.dtype() && !(isMatMulNBits() && zero.dtype() == DType.U8)) {
            return Optional.of(codes.dtype() + " codes with a zero point in " + zero.dtype());
        }
        if (zero != null && zero.bytes().byteSize() == 0) {
            return Optional.of("a zero point without elements");
        }
        if (isMatMulNBits() && scale.shape().elementCount() < codes.shape().dim(0)) {
            return Optional.of("fewer scales than rows");
        }
        if (zero != null && !fits(zero)) {
            return Optional.of("a zero point " + zero.spec() + " that does not fit scales " + scale.shape());
        }
        return kind().isPresent()
                ? Optional.empty()
                : Optional.of(codes.dtype() + " codes, which Octet does not dequantise in ONNX");
    }

    /** Whether there is one zero point, or one for each scale; those of MatMulNBits fill whole bytes, row by row. */
    private boolean fits(Tensor zero) {
        long scales = scale.shape().elementCount();
        if (!isMatMulNBits()) {
            return zero.shape().elementCount() == 1 || zero.shape().elementCount() == scales;
        }
        long rows = codes.shape().dim(0);
        return zero.bytes().byteSize()
                >= rows * Math.ceilDiv(scales / rows * codes.dtype().bits(), Byte.SIZE);
    }

    /** The numbers that codes mean; empty for those that Octet does not read. Integers with other zero points than the middle are asymmetric. */
    public Optional<QuantType> kind() {
        return switch (codes.dtype()) {
            case I8 -> Optional.of(hasZeroPoint() ? QuantType.INT8_ASYMMETRIC : QuantType.INT8);
            case I4, U4 -> Optional.of(isSymmetric() ? QuantType.INT4 : QuantType.INT4_ASYMMETRIC);
            case U8, I32 -> Optional.of(QuantType.INT8_ASYMMETRIC); // any zero point; I32 are biases
            case F8_E4M3FN, F8_E5M2, F8_E4M3FNUZ, F8_E5M2FNUZ ->
                Float8Format.of(codes.dtype()).flatMap(QuantType::of);
            case BOOL,
                    F4_E2M1,
                    F6_E2M3,
                    F6_E3M2,
                    U2,
                    I2,
                    F8_E8M0,
                    I16,
                    U16,
                    BF16,
                    F16,
                    U32,
                    F32,
                    C64,
                    F64,
                    I64,
                    U64,
                    C128,
                    STRING -> Optional.empty();
        };
    }

    /** Whether codes of four bits mean -8 to 7 times a scale; where it is negative, which ONNX Runtime's quantizer makes, 8 to -7. */
    private boolean isSymmetric() {
        boolean middle = codes.dtype() == DType.I4 ? !hasZeroPoint() : zeroPoint == null && isMatMulNBits();
        for (long i = 0; middle && i < scale.shape().elementCount(); i++) {
            middle = !(Floats.get(scale.dtype(), scale.bytes(), i) < 0);
        }
        return middle;
    }

    /** Whether any zero point differs from zero. */
    public boolean hasZeroPoint() {
        if (zeroPoint == null) {
            return false;
        }
        MemorySegment bytes = zeroPoint.bytes();
        for (long i = 0; i < bytes.byteSize(); i++) {
            if (bytes.get(ValueLayout.JAVA_BYTE, i) != 0) {
                return true;
            }
        }
        return false;
    }

    /** The number that the code of an element stands for, before its zero point and scale: of eight-bit floats their value. */
    public float number(long element) {
        DType type = codes.dtype();
        if (type == DType.I32) {
            return codes.bytes().get(Tensor.I32_LE, element * Integer.BYTES);
        }
        if (type.isFloat8()) {
            return Float8Format.of(type).orElseThrow().decode(codes.bytes().get(ValueLayout.JAVA_BYTE, element) & 0xFF);
        }
        return integer(codes.bytes(), element);
    }

    /** The zero point of a block. */
    public int zero(long block) {
        boolean packed = isMatMulNBits();
        if (zeroPoint == null) {
            return packed ? 1 << (codes.dtype().bits() - 1) : 0;
        }
        if (codes.dtype() == DType.I32 || codes.dtype().isFloat8()) {
            return 0;
        }
        if (packed) {
            long perRow = scale.shape().elementCount() / codes.shape().dim(0);
            long bytes = Math.ceilDiv(perRow * codes.dtype().bits(), Byte.SIZE);
            return integer(zeroPoint.bytes().asSlice(block / perRow * bytes, bytes), block % perRow);
        }
        return integer(zeroPoint.bytes(), zeroPoint.shape().elementCount() == 1 ? 0 : block);
    }

    private int integer(MemorySegment bytes, long index) {
        DType type = codes.dtype();
        if (type.bits() != HALF_BYTE) {
            byte code = bytes.get(ValueLayout.JAVA_BYTE, index);
            return type == DType.U8 ? code & 0xFF : code;
        }
        int half = bytes.get(ValueLayout.JAVA_BYTE, index / 2) >> (index % 2 * HALF_BYTE) & 0xF;
        return type == DType.I4 && half >= 1 << (HALF_BYTE - 1) ? half - (1 << HALF_BYTE) : half;
    }

    /** How the weight is stored: {@code INT8 per column, scale F32}. */
    public String form() {
        String number = Float8Format.of(codes.dtype())
                .flatMap(QuantType::of)
                .map(QuantType::toString)
                .orElse(codes.dtype().name().replace("I", "INT").replace("U", "UINT"));
        return number + (granularity == null ? "" : " " + shared(granularity)) + ", scale " + scale.dtype();
    }

    /** Which elements share a scale, in words; of more than two axes the outermost are channels, as a convolution has them. */
    private String shared(Granularity of) {
        int rank = codes.shape().rank();
        if (rank > 2 && of instanceof Granularity.PerChannel(int axis)) {
            return axis == -rank ? "per channel" : "per index of axis " + (rank + axis);
        }
        return of.text();
    }

    /**
     * Which elements share a scale, by ONNX: a scalar, one for each index along {@code axis}, or blocks along it.
     *
     * @param axis from the outermost, or negative from the innermost
     * @param block size of blocks along the axis; 0 for none
     * @return null where the shapes do not fit
     */
    static @Nullable Granularity granularity(Shape codes, Shape scale, long axis, long block) {
        if (scale.elementCount() == 1) {
            return new Granularity.PerTensor();
        }
        long fromEnd = axis < 0 ? axis : axis - codes.rank();
        if (fromEnd < -codes.rank() || fromEnd >= 0 || block > Integer.MAX_VALUE) {
            return null;
        }
        Granularity granularity = block > 0
                ? new Granularity.PerGroup((int) fromEnd, (int) block)
                : new Granularity.PerChannel((int) fromEnd);
        return granularity.scaleShape(codes).elementCount() == scale.elementCount() ? granularity : null;
    }

    /** The names of the weight as tools that quantise make its codes' names of it, best first. */
    public List<String> originalNames() {
        return Stream.of("_quantized", "_DQ_Q4", "_DQ_Q8", "_Q4", "_Q8", "_int8", "_fp8")
                .filter(name()::endsWith)
                .map(ending -> name().substring(0, name().length() - ending.length()))
                .toList();
    }
}
