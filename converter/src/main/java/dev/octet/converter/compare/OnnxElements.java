package dev.octet.converter.compare;

import dev.octet.converter.inspect.QuantizedConstant;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.ScaleRuns;
import java.lang.foreign.MemorySegment;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The elements of a constant of an ONNX graph in memory: {@code (code - zeroPoint) * scale} rounded to F32 as in {@code DequantizeLinear},
 * or the constant itself. Reading may start at any element.
 */
final class OnnxElements implements Elements {
    private final Tensor codes;
    private final @Nullable QuantizedConstant quantized;
    private final Granularity granularity;
    private final ScaleRuns runs;

    /** An unquantised constant. */
    OnnxElements(Tensor tensor) {
        this.codes = tensor;
        this.quantized = null;
        this.granularity = new Granularity.PerTensor();
        this.runs = Blocks.of(codes.shape(), granularity).runs();
    }

    /** Codes with their scales, of which there are no problems. */
    OnnxElements(QuantizedConstant quantized) {
        this.codes = quantized.codes();
        this.quantized = quantized;
        this.granularity = Objects.requireNonNull(quantized.granularity());
        this.runs = Blocks.of(codes.shape(), granularity).runs();
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
        QuantizedConstant of = quantized;
        if (of == null) {
            long width = codes.dtype().bits() / 8;
            PlainNumbers.widen(codes.dtype(), codes.bytes().asSlice(from * width), to - from, values);
            return;
        }
        eachScale(from, to, (element, block) -> {
            float number = of.number(element) - of.zero(block);
            values.set(Tensor.F32_LE, (element - from) * Float.BYTES, number * multiplier(block));
        });
    }

    private float multiplier(long block) {
        Tensor scale = quantized == null ? null : quantized.scale();
        return scale == null ? 1 : PlainNumbers.get(scale.dtype(), scale.bytes(), block);
    }

    @Override
    public void readMultipliers(long from, long to, MemorySegment multipliers) {
        eachScale(
                from,
                to,
                // steps have no sign
                (element, block) ->
                        multipliers.set(Tensor.F32_LE, (element - from) * Float.BYTES, Math.abs(multiplier(block))));
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
            return of.quantized == null ? 0 : of.quantized.scale().shape().elementCount();
        }

        @Override
        public void read(long from, long to, MemorySegment multipliers) {
            for (long i = from; i < to; i++) {
                multipliers.set(Tensor.F32_LE, (i - from) * Float.BYTES, of.multiplier(i));
            }
        }
    }
}
