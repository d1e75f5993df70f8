package dev.octet.quant.tile;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.scale.ScaleGrid;
import dev.octet.quant.scale.StoredScale;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/**
 * INT8 codes of a tile, as {@link TileCast} documents them. Rounding is to nearest, ties to even, of the FP32 quotient {@code x / scale};
 * symmetric codes stay within -127 .. 127.
 */
final class Integers {
    private static final int MAX = Byte.MAX_VALUE;
    private static final int MIN = Byte.MIN_VALUE;

    private Integers() {}

    /** Takes elements with the index of their scale. */
    private interface Visitor {
        void visit(long element, long scale);
    }

    private static void forEach(TileShape tile, Visitor visitor) {
        tile.grid().forEachRun(0, tile.elements(), new ScaleGrid.Visitor() {
            @Override
            public void shared(long first, long count, long scale) {
                for (long i = first; i < first + count; i++) {
                    visitor.visit(i, scale);
                }
            }

            @Override
            public void each(long first, long count, long scale) {
                for (long i = 0; i < count; i++) {
                    visitor.visit(first + i, scale + i);
                }
            }
        });
    }

    static void encode(
            DType type,
            MemorySegment source,
            TileShape tile,
            MemorySegment scales,
            @Nullable MemorySegment zeroPoints,
            MemorySegment codes) {
        int lowest = zeroPoints == null ? -MAX : MIN;
        forEach(tile, (i, s) -> {
            float steps = (float) Math.rint(Floats.get(type, source, i) / scale(scales, s)) + zeroPoint(zeroPoints, s);
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) Math.clamp(steps, lowest, MAX));
        });
    }

    static void decode(
            MemorySegment codes,
            TileShape tile,
            MemorySegment scales,
            @Nullable MemorySegment zeroPoints,
            DType type,
            MemorySegment target) {
        forEach(tile, (i, s) -> {
            int steps = codes.get(ValueLayout.JAVA_BYTE, i) - zeroPoint(zeroPoints, s);
            Floats.set(type, target, i, steps * scale(scales, s));
        });
    }

    static void affine(
            DType type, MemorySegment source, TileShape tile, MemorySegment scales, MemorySegment zeroPoints) {
        int count = Math.toIntExact(tile.scaleCount());
        float[] smallest = new float[count];
        float[] largest = new float[count];
        forEach(tile, (i, s) -> {
            float x = Floats.get(type, source, i);
            smallest[(int) s] = Math.min(smallest[(int) s], x);
            largest[(int) s] = Math.max(largest[(int) s], x);
        });
        for (int s = 0; s < count; s++) {
            // as doubles: the range of two floats can be infinite as a float
            double range = (double) largest[s] - smallest[s];
            float scale = range == 0 ? 1 : StoredScale.round((float) (range / (MAX - MIN)), DType.F32);
            scales.set(Tensor.F32_LE, (long) s * Float.BYTES, scale);
            long zero = Math.clamp(MIN - Math.round((double) smallest[s] / scale), MIN, MAX);
            zeroPoints.set(ValueLayout.JAVA_BYTE, s, (byte) zero);
        }
    }

    private static float scale(MemorySegment scales, long index) {
        return scales.get(Tensor.F32_LE, index * Float.BYTES);
    }

    private static int zeroPoint(@Nullable MemorySegment zeroPoints, long index) {
        return zeroPoints == null ? 0 : zeroPoints.get(ValueLayout.JAVA_BYTE, index);
    }
}
