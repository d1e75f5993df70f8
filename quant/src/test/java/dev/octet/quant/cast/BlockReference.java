package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * The twin of {@link BlockCast} that is law: one element after the other, each with the
 * scale of its block, formulas written out. Arguments as there; {@code zeroPoints} is null for
 * symmetric codes.
 */
final class BlockReference {
    private BlockReference() {}

    static void amax(DType type, MemorySegment source, Blocks tile, MemorySegment amax) {
        amax.fill((byte) 0);
        int[] indexes = scaleIndexes(tile);
        for (int i = 0; i < tile.elements(); i++) {
            int scale = indexes[i];
            float larger = Math.max(amax.getAtIndex(Tensor.F32_LE, scale), Math.abs(Floats.get(type, source, i)));
            amax.setAtIndex(Tensor.F32_LE, scale, larger); // NaN stays NaN
        }
    }

    static void encode(
            QuantType format,
            DType type,
            MemorySegment source,
            Blocks tile,
            MemorySegment scales,
            @Nullable MemorySegment zeroPoints,
            MemorySegment codes) {
        if (format == QuantType.E2M1) {
            codes.fill((byte) 0);
        }
        int[] indexes = scaleIndexes(tile);
        for (int i = 0; i < tile.elements(); i++) {
            int s = indexes[i];
            float scale = scales.getAtIndex(Tensor.F32_LE, s);
            float x = Floats.get(type, source, i);
            float quotient = scale == 0 ? Math.copySign(0f, x) : x / scale;
            int code = format.isInteger()
                    ? integer(format, quotient, zeroPoints == null ? 0 : zeroPoints.get(ValueLayout.JAVA_BYTE, s))
                    : format.minifloat().orElseThrow().encode(quotient, Overflow.SATURATE);
            if (format == QuantType.E2M1) {
                int pair = codes.get(ValueLayout.JAVA_BYTE, i / 2);
                codes.set(ValueLayout.JAVA_BYTE, i / 2, (byte) (pair | (i % 2 == 0 ? code : code << 4)));
            } else {
                codes.set(ValueLayout.JAVA_BYTE, i, (byte) code);
            }
        }
    }

    private static int integer(QuantType format, float quotient, int zeroPoint) {
        double code = Math.rint(quotient) + zeroPoint;
        return (int) Math.clamp(code, format.lowest(), format.highest());
    }

    static void decode(
            QuantType format,
            MemorySegment codes,
            Blocks tile,
            MemorySegment scales,
            @Nullable MemorySegment zeroPoints,
            DType type,
            MemorySegment target) {
        int[] indexes = scaleIndexes(tile);
        for (int i = 0; i < tile.elements(); i++) {
            int s = indexes[i];
            float scale = scales.getAtIndex(Tensor.F32_LE, s);
            float steps;
            if (format.isInteger()) {
                int zeroPoint = zeroPoints == null ? 0 : zeroPoints.get(ValueLayout.JAVA_BYTE, s);
                steps = codes.get(ValueLayout.JAVA_BYTE, i) - zeroPoint;
            } else {
                Float8Format minifloat = format.minifloat().orElseThrow();
                int code = format == QuantType.E2M1
                        ? (codes.get(ValueLayout.JAVA_BYTE, i / 2) >> (i % 2 * 4)) & 0xF
                        : codes.get(ValueLayout.JAVA_BYTE, i) & 0xFF;
                steps = minifloat.decode(code);
            }
            Floats.set(type, target, i, steps * scale);
        }
    }

    /** Row-major number of each element's block, in the order of the elements. */
    private static int[] scaleIndexes(Blocks tile) {
        long across = Math.ceilDiv(tile.cols(), tile.blockCols());
        int[] indexes = new int[Math.toIntExact(tile.elements())];
        for (int i = 0; i < indexes.length; i++) {
            indexes[i] =
                    Math.toIntExact(i / tile.cols() / tile.blockRows() * across + i % tile.cols() / tile.blockCols());
        }
        return indexes;
    }
}
