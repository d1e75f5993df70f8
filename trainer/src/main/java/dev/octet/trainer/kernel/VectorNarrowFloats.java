package dev.octet.trainer.kernel;

import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/**
 * Vector implementation, with the same bits as {@link ScalarNarrowFloats}, which also processes the elements that do not fill a vector. The
 * Vector API has no F16 vectors: F16 is widened and rounded with integer shifts and one float addition. Loading this class requires the
 * module {@code jdk.incubator.vector}.
 */
final class VectorNarrowFloats implements NarrowFloats {
    private static final VectorSpecies<Integer> INTS = IntVector.SPECIES_PREFERRED;
    private static final VectorSpecies<Float> FLOATS = FloatVector.SPECIES_PREFERRED;
    private static final VectorSpecies<Short> SHORTS =
            VectorSpecies.of(short.class, VectorShape.forBitSize(Math.max(64, INTS.vectorBitSize() / 2)));
    private static final int LANES = INTS.length();
    private static final ByteOrder LE = ByteOrder.LITTLE_ENDIAN;

    private static final int MAGNITUDE = 0x7FFFFFFF;
    private static final int EXPONENT = 0x7F800000;
    private static final int QUIET = 0x40;

    private static final int HALF_INFINITY = 0x7C00;
    private static final int HALF_SMALLEST_NORMAL = 0x0400;
    private static final int HALF_SHIFT = 23 - 10;
    private static final int HALF_REBIAS = (127 - 15) << 23;

    /** 0.5f, whose last mantissa bit is worth 2^-24, the smallest F16. */
    private static final int HALF_MAGIC = 0x3F000000;

    /** The smallest normal F16 as F32. */
    private static final int NORMAL_FROM = 113 << 23;

    /** Bits of 65520, from which on everything rounds to infinity. */
    private static final int OVERFLOW_FROM = 0x477FF000;

    private final ScalarNarrowFloats scalar = new ScalarNarrowFloats();

    @Override
    public void readBf16(MemorySegment from, long first, float[] to, int at, int n) {
        // int offsets into the slice let the JIT compiler hoist bounds checks out of the loop
        MemorySegment run = from.asSlice(first * 2, n * 2L);
        int i = 0;
        for (; i <= n - LANES; i += LANES) {
            ((IntVector) ShortVector.fromMemorySegment(SHORTS, run, i * 2L, LE)
                            .convertShape(VectorOperators.ZERO_EXTEND_S2I, INTS, 0))
                    .lanewise(VectorOperators.LSHL, 16)
                    .reinterpretAsFloats()
                    .intoArray(to, at + i);
        }
        scalar.readBf16(run, i, to, at + i, n - i);
    }

    @Override
    public void writeBf16(MemorySegment to, long first, float[] from, int at, int n) {
        MemorySegment run = to.asSlice(first * 2, n * 2L);
        int i = 0;
        for (; i <= n - LANES; i += LANES) {
            FloatVector x = FloatVector.fromArray(FLOATS, from, at + i);
            IntVector bits = x.reinterpretAsInts();
            IntVector upper = bits.lanewise(VectorOperators.LSHR, 16);
            IntVector rounded = bits.add(0x7FFF).add(upper.and(1)).lanewise(VectorOperators.LSHR, 16);
            VectorMask<Integer> nan = bits.and(MAGNITUDE).compare(VectorOperators.GT, EXPONENT);
            ((ShortVector) rounded.blend(upper.or(QUIET), nan).convertShape(VectorOperators.I2S, SHORTS, 0))
                    .intoMemorySegment(run, i * 2L, LE);
        }
        scalar.writeBf16(run, i, from, at + i, n - i);
    }

    @Override
    public void readF16(MemorySegment from, long first, float[] to, int at, int n) {
        MemorySegment run = from.asSlice(first * 2, n * 2L);
        int i = 0;
        for (; i <= n - LANES; i += LANES) {
            IntVector bits = (IntVector) ShortVector.fromMemorySegment(SHORTS, run, i * 2L, LE)
                    .convertShape(VectorOperators.ZERO_EXTEND_S2I, INTS, 0);
            IntVector magnitude = bits.and(0x7FFF);
            IntVector normal =
                    magnitude.lanewise(VectorOperators.LSHL, HALF_SHIFT).add(HALF_REBIAS);
            IntVector subnormal =
                    magnitude.or(HALF_MAGIC).reinterpretAsFloats().sub(0.5f).reinterpretAsInts();
            IntVector quiet = normal.or(EXPONENT); // infinity has no mantissa, NaN keeps its payload
            VectorMask<Integer> special = magnitude.compare(VectorOperators.GE, HALF_INFINITY);
            VectorMask<Integer> nan = magnitude.compare(VectorOperators.GT, HALF_INFINITY);
            normal.blend(subnormal, magnitude.compare(VectorOperators.LT, HALF_SMALLEST_NORMAL))
                    .blend(quiet, special)
                    .blend(quiet.or(0x00400000), nan)
                    .or(bits.and(0x8000).lanewise(VectorOperators.LSHL, 16))
                    .reinterpretAsFloats()
                    .intoArray(to, at + i);
        }
        scalar.readF16(run, i, to, at + i, n - i);
    }

    @Override
    public void writeF16(MemorySegment to, long first, float[] from, int at, int n) {
        MemorySegment run = to.asSlice(first * 2, n * 2L);
        int i = 0;
        for (; i <= n - LANES; i += LANES) {
            IntVector bits = FloatVector.fromArray(FLOATS, from, at + i).reinterpretAsInts();
            IntVector magnitude = bits.and(MAGNITUDE);
            IntVector lastKept =
                    magnitude.lanewise(VectorOperators.LSHR, HALF_SHIFT).and(1);
            IntVector normal =
                    magnitude.sub(HALF_REBIAS).add(0xFFF).add(lastKept).lanewise(VectorOperators.LSHR, HALF_SHIFT);
            // adding 0.5 rounds to multiples of the smallest F16
            IntVector subnormal = magnitude
                    .reinterpretAsFloats()
                    .add(0.5f)
                    .reinterpretAsInts()
                    .sub(HALF_MAGIC);
            // upper bits of a NaN's payload, made quiet, like hardware conversions
            IntVector nan = magnitude
                    .lanewise(VectorOperators.LSHR, HALF_SHIFT)
                    .and(0x3FF)
                    .or(HALF_INFINITY | 0x200);
            IntVector code = normal.blend(subnormal, magnitude.compare(VectorOperators.LT, NORMAL_FROM))
                    .blend(HALF_INFINITY, magnitude.compare(VectorOperators.GE, OVERFLOW_FROM))
                    .blend(nan, magnitude.compare(VectorOperators.GT, EXPONENT));
            ((ShortVector) code.or(bits.lanewise(VectorOperators.LSHR, 16).and(0x8000))
                            .convertShape(VectorOperators.I2S, SHORTS, 0))
                    .intoMemorySegment(run, i * 2L, LE);
        }
        scalar.writeF16(run, i, from, at + i, n - i);
    }
}
