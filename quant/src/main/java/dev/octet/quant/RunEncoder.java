package dev.octet.quant;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.ScaleGrid;
import java.lang.foreign.MemorySegment;

/** Encodes ranges of one tensor, run by run, with the scales of its grid. */
record RunEncoder(ElementCast cast, Tensor source, ScaleGrid grid, Float8Format format, Overflow overflow) {
    /**
     * Encodes elements {@code from .. to - 1}.
     *
     * @param scales F32, one for each scale of the grid
     * @param codes takes one code per byte, {@code to - from} of them
     */
    void encode(MemorySegment scales, long from, long to, MemorySegment codes) {
        grid.forEachRun(from, to, new ScaleGrid.Visitor() {
            @Override
            public void shared(long first, long count, long scale) {
                cast.encode(
                        source.dtype(),
                        Quantizer.elements(source, first, count),
                        scales.get(Tensor.F32_LE, scale * Float.BYTES),
                        format,
                        overflow,
                        codes.asSlice(first - from, count));
            }

            @Override
            public void each(long first, long count, long scale) {
                cast.encodeEach(
                        source.dtype(),
                        Quantizer.elements(source, first, count),
                        Quantizer.floats(scales, scale, count),
                        format,
                        overflow,
                        codes.asSlice(first - from, count));
            }
        });
    }
}
