package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.QuantType;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Decides whether a step changes values, from number types and scales, before any weight is read.
 *
 * <p>The product of a code with {@code p} significant bits and a scale with {@code q} has at most {@code p + q} bits; it is exact in a type
 * with that many bits and a sufficient exponent range.
 */
final class ExactnessCheck {
    /** Most scales that are read to prove a step exact; a step with more scales counts as one rounding. */
    private static final long MAX_SCALES = 64L << 20;

    private static final int CHUNK = 1 << 16;
    private static final long CODE_CHUNK = 1L << 20;

    private final Checkpoint checkpoint;

    ExactnessCheck(Checkpoint checkpoint) {
        this.checkpoint = checkpoint;
    }

    /** Dequantising to {@code type}. */
    Exactness dequantize(StoredWeight weight, DType type) throws IOException {
        ScaleTensor scale = weight.scale();
        if (scale == null || weight.globalScale() != null) {
            return Exactness.ONE_ROUNDING;
        }
        ScaleFacts facts = facts(scale);
        // a power of two adds no bit to the product
        int bits = facts.significantBits() == 1
                ? codeBits(weight.codes())
                : codeBits(weight.codes()) + facts.significantBits();
        boolean inRange = facts.smallest() * smallestCode(weight.codes()) >= smallest(type)
                && facts.largest() * weight.codes().maxValue() <= largest(type);
        return bits <= significantBits(type) && inRange ? Exactness.EXACT : Exactness.ONE_ROUNDING;
    }

    /**
     * Whether all codes of an E4M3FNUZ weight are valid in E4M3FN, where they encode twice the number: all but 0x7F, 0xFF (240, in E4M3FN
     * NaN) and 0x80 (NaN, in E4M3FN minus zero). Reads the weight.
     */
    boolean areSharedCodes(StoredWeight weight) throws IOException {
        StoredTensor tensor =
                Objects.requireNonNull(checkpoint.tensor(weight.data().name()));
        long bytes = tensor.spec().byteSize();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment chunk = arena.allocate(Math.min(Math.max(1, bytes), CODE_CHUNK));
            for (long from = 0; from < bytes; from += CODE_CHUNK) {
                MemorySegment part = chunk.asSlice(0, Math.min(CODE_CHUNK, bytes - from));
                checkpoint.read(tensor, from, part);
                for (long i = 0; i < part.byteSize(); i++) {
                    byte code = part.get(ValueLayout.JAVA_BYTE, i);
                    if ((code & 0x7F) == 0x7F || code == (byte) 0x80) {
                        return false;
                    }
                }
            }
        }
        return true;
    }

    /** Writing the scales of {@code source} in the form of {@code target}, with unchanged codes. */
    Exactness relayout(StoredWeight source, StoredWeight target) throws IOException {
        boolean exact = survives(source.scale(), target.scale())
                && survives(source.globalScale(), target.globalScale())
                && survives(source.inputScale(), target.inputScale());
        return exact ? Exactness.EXACT : Exactness.ONE_ROUNDING;
    }

    private boolean survives(@Nullable ScaleTensor from, @Nullable ScaleTensor to) throws IOException {
        if (from == null || to == null) {
            return true; // an input scale that the target lacks does not affect the weight's values
        }
        if (from.number() == to.number() && from.direction() == to.direction()) {
            return true;
        }
        if (from.spec().shape().elementCount() > MAX_SCALES) {
            return false;
        }
        boolean[] exact = {true};
        forEachChunk(from, (f32, count, scratch) -> {
            MemorySegment written = scratch.allocate((long) count * Float.BYTES, 8);
            if (from.direction() != to.direction()) {
                exact[0] &= arePowersOfTwo(f32, count); // otherwise quotient and product round differently
            }
            exact[0] &= ScaleForms.write(to, f32, count, written);
        });
        return exact[0];
    }

    private static boolean arePowersOfTwo(MemorySegment f32, int count) {
        for (long i = 0; i < count; i++) {
            if (significantBits(f32.get(Tensor.F32_LE, i * Float.BYTES)) > 1) {
                return false;
            }
        }
        return true;
    }

    /** Properties of a scale tensor. */
    private record ScaleFacts(int significantBits, double smallest, double largest) {}

    private ScaleFacts facts(ScaleTensor scale) throws IOException {
        if (scale.spec().shape().elementCount() > MAX_SCALES && scale.number() != DType.F8_E8M0) {
            return new ScaleFacts(24, 0, Double.POSITIVE_INFINITY);
        }
        double[] ends = {Double.POSITIVE_INFINITY, 0};
        int[] bits = {1};
        forEachChunk(scale, (f32, count, _) -> {
            for (int i = 0; i < count; i++) {
                float s = f32.get(Tensor.F32_LE, (long) i * Float.BYTES);
                ends[0] = Math.min(ends[0], s);
                ends[1] = Math.max(ends[1], s);
                bits[0] = Math.max(bits[0], significantBits(s));
            }
        });
        return new ScaleFacts(bits[0], ends[0], ends[1]);
    }

    private interface Chunk {
        void take(MemorySegment f32, int count, Arena scratch) throws IOException;
    }

    private void forEachChunk(ScaleTensor scale, Chunk chunk) throws IOException {
        long width = scale.spec().dtype().bits() / 8;
        long total = scale.spec().shape().elementCount();
        for (long first = 0; first < total; first += CHUNK) {
            int count = (int) Math.min(CHUNK, total - first);
            try (Arena scratch = Arena.ofConfined()) {
                MemorySegment raw = scratch.allocate(count * width, 8);
                MemorySegment f32 = scratch.allocate((long) count * Float.BYTES, 8);
                checkpoint.read(Objects.requireNonNull(checkpoint.tensor(scale.name())), first * width, raw);
                ScaleForms.read(scale, raw, count, f32);
                chunk.take(f32, count, scratch);
            }
        }
    }

    private static int significantBits(float value) {
        int fraction = Float.floatToRawIntBits(value) & 0x7FFFFF;
        return fraction == 0 ? 1 : 24 - Integer.numberOfTrailingZeros(fraction);
    }

    private static int codeBits(QuantType codes) {
        return switch (codes) {
            case E4M3FN, E4M3FNUZ -> 4;
            case E5M2, E5M2FNUZ -> 3;
            case E2M1 -> 2;
            case INT8 -> 8;
            case INT8_ASYMMETRIC -> 9;
            case INT4, INT4_ASYMMETRIC -> 4;
        };
    }

    private static double smallestCode(QuantType codes) {
        return codes.minifloat().map(m -> (double) m.minPositive()).orElse(1.0);
    }

    private static int significantBits(DType type) {
        return type == DType.F32 ? 24 : type == DType.F16 ? 11 : 8;
    }

    private static double smallest(DType type) {
        return type == DType.F16 ? 0x1p-14 : 0x1p-126;
    }

    private static double largest(DType type) {
        return type == DType.F16 ? 65504 : type == DType.F32 ? Float.MAX_VALUE : 0x1.FEp127;
    }

    /**
     * Whether every block of {@code fine} lies in one block of {@code coarse}, so that each coarse scale can be repeated for its fine
     * blocks.
     */
    static boolean refines(Granularity fine, Granularity coarse, Shape matrix) {
        long[] small = fine.blockShape(matrix);
        long[] large = coarse.blockShape(matrix);
        for (int axis = 0; axis < small.length; axis++) {
            boolean whole = large[axis] >= matrix.dim(axis);
            if (!whole && large[axis] % small[axis] != 0) {
                return false;
            }
        }
        return true;
    }

    /** Whether both granularities cut a matrix into the same blocks. */
    static boolean same(Granularity a, Granularity b, Shape matrix) {
        return Arrays.equals(a.gridShape(matrix), b.gridShape(matrix)) && refines(a, b, matrix);
    }
}
