package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Casts between floats and codes with a scale for each block: tiles of streamed checkpoints, stripes of whole tensors, bands of the
 * trainer's matrices. Each element crosses memory once; nothing larger than a few thousand codes is allocated.
 *
 * <p>Every method takes elements as {@link ScaleRuns}. Memory begins with the first of these elements, scales with the first of their
 * scales, so that parts of a tensor give the bytes of the whole.
 *
 * <p>Floats are F32, BF16 or F16; scales are F32 multipliers, positive and finite, or zero, with which elements become zeros and codes
 * give zeros; codes one to a byte, {@link QuantType#E2M1} two, the earlier in the low nibble. Integers are {@link ElementCast#encodeIntegers}'s,
 * one to a byte, also those of four bits; {@link Words} and {@link Nibbles} pack them.
 *
 * <p>Single-threaded; for use by any number of threads.
 *
 * @param cast the twin that casts the elements
 * @param overflow what becomes of values beyond the largest float code; integers saturate
 */
public record BlockCast(ElementCast cast, Overflow overflow) {
    /** Four-bit codes spread out together, one to a byte: even, and small enough for a core's nearest cache. */
    private static final long SPREAD = 1 << 13;

    /** Saturating casts by the fastest twin this JVM can run. */
    public static BlockCast best() {
        return new BlockCast(ElementCast.best(), Overflow.SATURATE);
    }

    /**
     * The largest magnitudes; NaN where any element is NaN, else infinity where any is infinite.
     *
     * @param source floats of {@code type}
     * @param amax takes an F32 for each scale, whatever it held before
     */
    public void amax(DType type, MemorySegment source, ScaleRuns runs, MemorySegment amax) {
        amax.fill((byte) 0);
        int width = Sizes.width(type);
        long from = runs.from();
        long firstScale = runs.firstScale();
        runs.forEach((first, count, scale, size) -> {
            MemorySegment in = slice(source, first - from, count, width);
            cast.amaxGroups(type, in, size, groups(amax, scale - firstScale, count, size));
        });
    }

    /**
     * The smallest ranges that hold zero and all elements of a scale; NaN is left out.
     *
     * @param source floats of {@code type}
     */
    public Range[] ranges(DType type, MemorySegment source, ScaleRuns runs) {
        Range[] ranges = new Range[Math.toIntExact(runs.scaleCount())];
        Arrays.fill(ranges, Range.ZERO);
        int width = Sizes.width(type);
        runs.forEachGroup((first, count, scale) -> {
            int i = (int) (scale - runs.firstScale());
            ranges[i] = ranges[i].with(cast.range(type, slice(source, first - runs.from(), count, width)));
        });
        return ranges;
    }

    /**
     * Encodes with symmetric codes.
     *
     * @param source floats of {@code type}, all finite
     * @param scales one F32 for each scale
     * @param codes takes {@link QuantType#bytes} bytes; four-bit codes begin with a byte
     */
    public void encode(
            QuantType format,
            DType type,
            MemorySegment source,
            ScaleRuns runs,
            MemorySegment scales,
            MemorySegment codes) {
        if (format.isInteger()) {
            encodeIntegers(format, type, source, runs, scales, null, codes);
        } else if (format == QuantType.E2M1) {
            encodePairs(type, source, runs, scales, codes);
        } else {
            encodeBytes(format.minifloat().orElseThrow(), type, source, runs, scales, codes);
        }
    }

    private void encodeBytes(
            Float8Format format,
            DType type,
            MemorySegment source,
            ScaleRuns runs,
            MemorySegment scales,
            MemorySegment codes) {
        int width = Sizes.width(type);
        long from = runs.from();
        long firstScale = runs.firstScale();
        runs.forEach((first, count, scale, size) -> {
            MemorySegment in = slice(source, first - from, count, width);
            MemorySegment by = groups(scales, scale - firstScale, count, size);
            cast.encodeGroups(type, in, by, size, format, overflow, slice(codes, first - from, count, 1));
        });
    }

    private void encodePairs(
            DType type, MemorySegment source, ScaleRuns runs, MemorySegment scales, MemorySegment codes) {
        int width = Sizes.width(type);
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment buffer = scratch.allocate(Math.min(SPREAD, runs.elements()), 64);
            for (ScaleRuns part : runs.cut(SPREAD)) {
                long first = part.from() - runs.from();
                MemorySegment spread = slice(buffer, 0, part.elements(), 1);
                MemorySegment in = slice(source, first, part.elements(), width);
                encodeBytes(Float8Format.E2M1, type, in, part, scalesOf(part, runs, scales), spread);
                Nibbles.pack(/* codes= */ spread, /* packed= */ pairs(codes, first, part.elements()));
            }
        }
    }

    private void encodeIntegers(
            QuantType format,
            DType type,
            MemorySegment source,
            ScaleRuns runs,
            MemorySegment scales,
            @Nullable MemorySegment zeroPoints,
            MemorySegment codes) {
        int width = Sizes.width(type);
        runs.forEachGroup((first, count, scale) -> {
            long at = first - runs.from();
            long s = scale - runs.firstScale();
            MemorySegment in = slice(source, at, count, width);
            cast.encodeIntegers(
                    type, in, scale(scales, s), zeroPoint(zeroPoints, s), format, slice(codes, at, count, 1));
        });
    }

    /**
     * Decodes symmetric codes: {@code code * scale}, rounded to FP32 and from there to {@code type}.
     *
     * @param codes {@link QuantType#bytes} bytes; four-bit codes begin with a byte
     * @param scales one F32 for each scale
     * @param target takes floats of {@code type}
     */
    public void decode(
            QuantType format,
            MemorySegment codes,
            ScaleRuns runs,
            MemorySegment scales,
            DType type,
            MemorySegment target) {
        if (format.isInteger()) {
            decodeIntegers(codes, runs, scales, null, type, target);
        } else if (format == QuantType.E2M1) {
            decodePairs(codes, runs, scales, type, target);
        } else {
            decodeBytes(format.minifloat().orElseThrow(), codes, runs, scales, type, target);
        }
    }

    private void decodeBytes(
            Float8Format format,
            MemorySegment codes,
            ScaleRuns runs,
            MemorySegment scales,
            DType type,
            MemorySegment target) {
        int width = Sizes.width(type);
        long from = runs.from();
        long firstScale = runs.firstScale();
        runs.forEach((first, count, scale, size) -> {
            MemorySegment by = groups(scales, scale - firstScale, count, size);
            MemorySegment out = slice(target, first - from, count, width);
            cast.decodeGroups(format, slice(codes, first - from, count, 1), by, size, type, out);
        });
    }

    private void decodePairs(
            MemorySegment codes, ScaleRuns runs, MemorySegment scales, DType type, MemorySegment target) {
        int width = Sizes.width(type);
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment buffer = scratch.allocate(Math.min(SPREAD, runs.elements()), 64);
            for (ScaleRuns part : runs.cut(SPREAD)) {
                long first = part.from() - runs.from();
                MemorySegment spread = slice(buffer, 0, part.elements(), 1);
                Nibbles.unpack(/* packed= */ pairs(codes, first, part.elements()), /* codes= */ spread);
                MemorySegment out = slice(target, first, part.elements(), width);
                decodeBytes(Float8Format.E2M1, spread, part, scalesOf(part, runs, scales), type, out);
            }
        }
    }

    private void decodeIntegers(
            MemorySegment codes,
            ScaleRuns runs,
            MemorySegment scales,
            @Nullable MemorySegment zeroPoints,
            DType type,
            MemorySegment target) {
        int width = Sizes.width(type);
        runs.forEachGroup((first, count, scale) -> {
            long at = first - runs.from();
            long s = scale - runs.firstScale();
            MemorySegment out = slice(target, at, count, width);
            cast.decodeIntegers(slice(codes, at, count, 1), scale(scales, s), zeroPoint(zeroPoints, s), type, out);
        });
    }

    /** As {@link #encode} of integers with a zero point; {@code zeroPoints} holds one I8 for each scale. */
    public void encodeAffine(
            QuantType format,
            DType type,
            MemorySegment source,
            ScaleRuns runs,
            MemorySegment scales,
            MemorySegment zeroPoints,
            MemorySegment codes) {
        encodeIntegers(format, type, source, runs, scales, zeroPoints, codes);
    }

    /** As {@link #decode} of integers with a zero point; {@code zeroPoints} holds one I8 for each scale. */
    public void decodeAffine(
            MemorySegment codes,
            ScaleRuns runs,
            MemorySegment scales,
            MemorySegment zeroPoints,
            DType type,
            MemorySegment target) {
        decodeIntegers(codes, runs, scales, zeroPoints, type, target);
    }

    private static MemorySegment slice(MemorySegment segment, long first, long count, int width) {
        return segment.asSlice(first * width, count * width);
    }

    /** The scales of a run. */
    private static MemorySegment groups(MemorySegment scales, long first, long count, long size) {
        return slice(scales, first, Math.ceilDiv(count, size), Float.BYTES);
    }

    private static MemorySegment scalesOf(ScaleRuns part, ScaleRuns whole, MemorySegment scales) {
        return slice(scales, part.firstScale() - whole.firstScale(), part.scaleCount(), Float.BYTES);
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
