package dev.octet.quant.tile;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.cast.Nibbles;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.StoredScale;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Casts of tiles: whole rows of a matrix, starting at a border of its blocks, so that the scales of a tile are a run of the matrix's
 * scales (row-major over the blocks). The results are those of {@code dev.octet.quant.Quantizer} on the whole matrix.
 *
 * <p>Floats are F32, BF16 or F16; scales are F32 multipliers, positive and finite, or zero, with which elements become zeros and codes
 * give zeros; codes one to a byte, {@link QuantType#E2M1} two, the earlier in the low nibble. Overflow saturates. Immutable; for use by
 * any number of threads.
 *
 * <p>Integers are {@link ElementCast#encodeInt8}'s, one to a byte, symmetric ones without a zero point and in -127 .. 127; those of four bits are
 * decoded only.
 */
public final class TileCast {
    private static final int LOWEST = Byte.MIN_VALUE;
    private static final int LOWEST_SYMMETRIC = -Byte.MAX_VALUE;
    private static final int INTEGER_STEPS = Byte.MAX_VALUE - Byte.MIN_VALUE;

    /** Four-bit codes are spread out this many at a time, one to a byte; small enough for a core's nearest cache. */
    private static final long SPREAD = 1 << 13;

    private final ElementCast cast;

    /** Tiles cast by the fastest twin this JVM can run. */
    public TileCast() {
        this(ElementCast.best());
    }

    /** Tiles cast by a chosen twin, for tests and measurements. */
    public TileCast(ElementCast cast) {
        this.cast = cast;
    }

    /**
     * The largest magnitudes; NaN where any element is NaN, else infinity where any is infinite.
     *
     * @param source {@code tile.elements()} floats of {@code type}
     * @param amax takes {@link TileShape#scaleCount} F32, whatever it held before
     */
    public void amax(DType type, MemorySegment source, TileShape tile, MemorySegment amax) {
        amax.fill((byte) 0);
        int width = type.bits() / 8;
        Stretches.of(tile).forEach((first, count, scale, size) -> {
            MemorySegment in = slice(source, first, count, width);
            cast.amaxGroups(type, in, size, groups(amax, scale, count, size));
        });
    }

    /**
     * Encodes a tile with symmetric codes.
     *
     * @param source {@code tile.elements()} floats of {@code type}, all finite
     * @param scales {@link TileShape#scaleCount} F32
     * @param codes takes {@link TileShape#codeBytes} bytes
     */
    public void encode(
            QuantType format,
            DType type,
            MemorySegment source,
            TileShape tile,
            MemorySegment scales,
            MemorySegment codes) {
        if (format.isInteger()) {
            requireEightBits(format);
            encodeIntegers(type, source, tile, scales, null, codes);
            return;
        }
        Float8Format minifloat = format.minifloat().orElseThrow();
        if (format == QuantType.E2M1) {
            encodePairs(minifloat, type, source, tile, scales, codes);
            return;
        }
        encodeBytes(minifloat, type, source, tile, scales, codes);
    }

    private static void requireEightBits(QuantType format) {
        if (format.bits() != Byte.SIZE) {
            throw new IllegalArgumentException(format + " is read, not written");
        }
    }

    private void encodeBytes(
            Float8Format format,
            DType type,
            MemorySegment source,
            TileShape tile,
            MemorySegment scales,
            MemorySegment codes) {
        int width = type.bits() / 8;
        Stretches.of(tile).forEach((first, count, scale, size) -> {
            MemorySegment in = slice(source, first, count, width);
            MemorySegment by = groups(scales, scale, count, size);
            cast.encodeGroups(type, in, by, size, format, Overflow.SATURATE, slice(codes, first, count, 1));
        });
    }

    private void encodePairs(
            Float8Format format,
            DType type,
            MemorySegment source,
            TileShape tile,
            MemorySegment scales,
            MemorySegment codes) {
        Stretches stretches = Stretches.of(tile);
        int width = type.bits() / 8;
        try (Arena scratch = Arena.ofConfined()) {
            if (tile.cols() % 2 != 0) { // rows begin within bytes
                MemorySegment spread = scratch.allocate(tile.elements(), 64);
                encodeBytes(format, type, source, tile, scales, spread);
                Nibbles.pack(/* codes= */ spread, /* packed= */ codes);
                return;
            }
            MemorySegment buffer = scratch.allocate(stretches.longestUpTo(SPREAD), 64);
            stretches.forEachUpTo(SPREAD, (first, count, scale, size) -> {
                MemorySegment in = slice(source, first, count, width);
                MemorySegment by = groups(scales, scale, count, size);
                MemorySegment spread = slice(buffer, 0, count, 1);
                cast.encodeGroups(type, in, by, size, format, Overflow.SATURATE, spread);
                Nibbles.pack(/* codes= */ spread, /* packed= */ pairs(codes, first, count));
            });
        }
    }

    private void encodeIntegers(
            DType type,
            MemorySegment source,
            TileShape tile,
            MemorySegment scales,
            @Nullable MemorySegment zeroPoints,
            MemorySegment codes) {
        int width = type.bits() / 8;
        int lowest = zeroPoints == null ? LOWEST_SYMMETRIC : LOWEST;
        forEachGroup(tile, (first, count, scale) -> {
            MemorySegment in = slice(source, first, count, width);
            MemorySegment out = slice(codes, first, count, 1);
            cast.encodeInt8(type, in, scale(scales, scale), zeroPoint(zeroPoints, scale), lowest, out);
        });
    }

    /**
     * Decodes a tile: {@code code * scale}, rounded to FP32 and from there to {@code type}.
     *
     * @param codes {@link TileShape#codeBytes} bytes
     * @param scales {@link TileShape#scaleCount} F32
     * @param target takes {@code tile.elements()} floats of {@code type}
     */
    public void decode(
            QuantType format,
            MemorySegment codes,
            TileShape tile,
            MemorySegment scales,
            DType type,
            MemorySegment target) {
        if (format.isInteger()) {
            decodeIntegers(codes, tile, scales, null, type, target);
            return;
        }
        Float8Format minifloat = format.minifloat().orElseThrow();
        if (format == QuantType.E2M1) {
            decodePairs(minifloat, codes, tile, scales, type, target);
            return;
        }
        decodeBytes(minifloat, codes, tile, scales, type, target);
    }

    private void decodeBytes(
            Float8Format format,
            MemorySegment codes,
            TileShape tile,
            MemorySegment scales,
            DType type,
            MemorySegment target) {
        int width = type.bits() / 8;
        Stretches.of(tile).forEach((first, count, scale, size) -> {
            MemorySegment by = groups(scales, scale, count, size);
            MemorySegment out = slice(target, first, count, width);
            cast.decodeGroups(format, slice(codes, first, count, 1), by, size, type, out);
        });
    }

    private void decodePairs(
            Float8Format format,
            MemorySegment codes,
            TileShape tile,
            MemorySegment scales,
            DType type,
            MemorySegment target) {
        Stretches stretches = Stretches.of(tile);
        int width = type.bits() / 8;
        try (Arena scratch = Arena.ofConfined()) {
            if (tile.cols() % 2 != 0) {
                MemorySegment spread = scratch.allocate(tile.elements(), 64);
                Nibbles.unpack(/* packed= */ codes, /* codes= */ spread);
                decodeBytes(format, spread, tile, scales, type, target);
                return;
            }
            MemorySegment buffer = scratch.allocate(stretches.longestUpTo(SPREAD), 64);
            stretches.forEachUpTo(SPREAD, (first, count, scale, size) -> {
                MemorySegment spread = slice(buffer, 0, count, 1);
                Nibbles.unpack(/* packed= */ pairs(codes, first, count), /* codes= */ spread);
                MemorySegment by = groups(scales, scale, count, size);
                cast.decodeGroups(format, spread, by, size, type, slice(target, first, count, width));
            });
        }
    }

    private void decodeIntegers(
            MemorySegment codes,
            TileShape tile,
            MemorySegment scales,
            @Nullable MemorySegment zeroPoints,
            DType type,
            MemorySegment target) {
        int width = type.bits() / 8;
        forEachGroup(tile, (first, count, scale) -> {
            MemorySegment in = slice(codes, first, count, 1);
            MemorySegment out = slice(target, first, count, width);
            cast.decodeInt8(in, scale(scales, scale), zeroPoint(zeroPoints, scale), type, out);
        });
    }

    /**
     * The scales and zero points of asymmetric integers for a tile: the range from the smallest to the largest element, widened to hold
     * zero, laid over -128 .. 127. {@code scale = (largest - smallest) / 255} and {@code zeroPoint = -128 - smallest / scale}, each
     * rounded once, ties to even; where all elements are zero, 1 and -128. compressed-tensors has the same formulas in FP32, with a
     * rounding for each operation.
     *
     * @param source {@code tile.elements()} floats of {@code type}, all finite
     * @param scaleNumber what the scales are stored as; they are rounded up to it before zero points are found, so that the range still fits
     * @param scales takes {@link TileShape#scaleCount} F32
     * @param zeroPoints takes as many I8
     */
    public void affine(
            DType type,
            MemorySegment source,
            TileShape tile,
            DType scaleNumber,
            MemorySegment scales,
            MemorySegment zeroPoints) {
        int width = type.bits() / 8;
        Range[] ranges = new Range[Math.toIntExact(tile.scaleCount())];
        Arrays.fill(ranges, Range.ZERO);
        forEachGroup(tile, (first, count, scale) -> {
            Range range = cast.range(type, slice(source, first, count, width));
            ranges[(int) scale] = ranges[(int) scale].with(range);
        });
        for (int i = 0; i < ranges.length; i++) {
            float scale = affineScale(ranges[i], scaleNumber);
            scales.set(Tensor.F32_LE, (long) i * Float.BYTES, scale);
            zeroPoints.set(ValueLayout.JAVA_BYTE, i, affineZeroPoint(ranges[i], scale));
        }
    }

    private static float affineScale(Range range, DType number) {
        double span = (double) range.largest() - range.smallest(); // of floats, so it can be more than a float
        return span == 0 ? 1 : StoredScale.roundUp((float) (span / INTEGER_STEPS), number);
    }

    private static byte affineZeroPoint(Range range, float scale) {
        return (byte) Math.rint(Math.clamp(LOWEST - range.smallest() / (double) scale, LOWEST, Byte.MAX_VALUE));
    }

    /** As {@link #encode} with {@link QuantType#INT8_ASYMMETRIC}; {@code zeroPoints} holds one I8 for each scale. */
    public void encodeAffine(
            DType type,
            MemorySegment source,
            TileShape tile,
            MemorySegment scales,
            MemorySegment zeroPoints,
            MemorySegment codes) {
        encodeIntegers(type, source, tile, scales, zeroPoints, codes);
    }

    /** As {@link #decode} with {@link QuantType#INT8_ASYMMETRIC}; {@code zeroPoints} holds one I8 for each scale. */
    public void decodeAffine(
            MemorySegment codes,
            TileShape tile,
            MemorySegment scales,
            MemorySegment zeroPoints,
            DType type,
            MemorySegment target) {
        decodeIntegers(codes, tile, scales, zeroPoints, type, target);
    }

    /** Takes neighbouring elements that share a scale. */
    private interface GroupVisitor {
        void visit(long first, long count, long scale);
    }

    private static void forEachGroup(TileShape tile, GroupVisitor visitor) {
        Stretches.of(tile).forEach((first, count, scale, size) -> {
            for (long from = 0; from < count; from += size) {
                visitor.visit(first + from, Math.min(size, count - from), scale + from / size);
            }
        });
    }

    private static MemorySegment slice(MemorySegment segment, long first, long count, int width) {
        return segment.asSlice(first * width, count * width);
    }

    /** The scales of a stretch. */
    private static MemorySegment groups(MemorySegment scales, long first, long count, long size) {
        return slice(scales, first, Math.ceilDiv(count, size), Float.BYTES);
    }

    /** The bytes of {@code count} four-bit codes, the first of which has an even index. */
    private static MemorySegment pairs(MemorySegment codes, long first, long count) {
        return codes.asSlice(first / 2, Math.ceilDiv(count, 2L));
    }

    private static float scale(MemorySegment scales, long index) {
        return scales.get(Tensor.F32_LE, index * Float.BYTES);
    }

    private static int zeroPoint(@Nullable MemorySegment zeroPoints, long index) {
        return zeroPoints == null ? 0 : zeroPoints.get(ValueLayout.JAVA_BYTE, index);
    }
}
