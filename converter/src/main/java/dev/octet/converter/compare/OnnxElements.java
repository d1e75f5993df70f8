package dev.octet.converter.compare;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * The elements of a constant of an ONNX graph in memory: {@code (code - zeroPoint) * scale} rounded to F32 as in {@code DequantizeLinear},
 * or the constant itself. Reading may start at any element.
 */
final class OnnxElements implements Elements {
    private final Tensor codes;
    private final @Nullable QuantType kind;
    private final Granularity granularity;
    private final @Nullable Tensor scale;
    private final @Nullable Tensor zeroPoint;
    private final ScaleRuns runs;

    /** An unquantised constant. */
    OnnxElements(Tensor tensor) {
        this(tensor, null, new Granularity.PerTensor(), null, null);
    }

    /**
     * Codes with their scales.
     *
     * @param scale F32, F16 or BF16, one for each block
     * @param zeroPoint one for each block, in the type of the codes; null without zero points
     */
    OnnxElements(
            Tensor codes,
            @Nullable QuantType kind,
            Granularity granularity,
            @Nullable Tensor scale,
            @Nullable Tensor zeroPoint) {
        this.codes = codes;
        this.kind = kind;
        this.granularity = granularity;
        this.scale = scale;
        this.zeroPoint = zeroPoint;
        this.runs = Blocks.of(codes.shape(), granularity).runs();
    }

    /** Whether any element of a zero point differs from zero. */
    static boolean notZero(Tensor zeroPoint) {
        MemorySegment bytes = zeroPoint.bytes();
        for (long i = 0; i < bytes.byteSize(); i++) {
            if (bytes.get(ValueLayout.JAVA_BYTE, i) != 0) {
                return true;
            }
        }
        return false;
    }

    @Override
    public long count() {
        return codes.shape().elementCount();
    }

    @Override
    public long cols() {
        return Blocks.cols(codes.shape());
    }

    @Override
    public long rowsOfMatrix() {
        return Blocks.rows(codes.shape());
    }

    @Override
    public int rowAlignment() {
        return 0;
    }

    @Override
    public void read(long from, long to, MemorySegment values) {
        if (kind == null) {
            long width = codes.dtype().bits() / 8;
            PlainNumbers.widen(codes.dtype(), codes.bytes().asSlice(from * width), to - from, values);
            return;
        }
        Float8Format format = kind.minifloat().orElse(null);
        eachScale(from, to, (element, block) -> {
            byte code = codes.bytes().get(ValueLayout.JAVA_BYTE, element);
            float number = format != null ? format.decode(code & 0xFF) : integer(code) - zeroPoint(block);
            values.set(Tensor.F32_LE, (element - from) * Float.BYTES, number * multiplier(block));
        });
    }

    private int integer(byte code) {
        return codes.dtype() == DType.U8 ? code & 0xFF : code;
    }

    private int zeroPoint(long block) {
        if (zeroPoint == null) {
            return 0;
        }
        long index = zeroPoint.shape().elementCount() == 1 ? 0 : block;
        return integer(zeroPoint.bytes().get(ValueLayout.JAVA_BYTE, index));
    }

    private float multiplier(long block) {
        return scale == null ? 1 : PlainNumbers.get(scale.dtype(), scale.bytes(), block);
    }

    @Override
    public void readMultipliers(long from, long to, MemorySegment multipliers) {
        eachScale(
                from,
                to,
                (element, block) -> multipliers.set(Tensor.F32_LE, (element - from) * Float.BYTES, multiplier(block)));
    }

    /** Receives elements with the index of their scale. */
    private interface Taker {
        void take(long element, long block);
    }

    private void eachScale(long from, long to, Taker taker) {
        runs.part(from, to).forEachGroup((first, count, block) -> {
            for (long i = first; i < first + count; i++) {
                taker.take(i, block);
            }
        });
    }

    /** Its scales. */
    ScaleList scales() {
        return new Scales(this);
    }

    private record Scales(OnnxElements of) implements ScaleList {
        @Override
        public Granularity granularity() {
            return of.granularity;
        }

        @Override
        public long count() {
            return of.scale == null ? 0 : of.scale.shape().elementCount();
        }

        @Override
        public void read(long from, long to, MemorySegment multipliers) {
            for (long i = from; i < to; i++) {
                multipliers.set(Tensor.F32_LE, (i - from) * Float.BYTES, of.multiplier(i));
            }
        }
    }
}
