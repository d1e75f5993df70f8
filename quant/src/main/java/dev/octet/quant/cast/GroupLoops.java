package dev.octet.quant.cast;

import static dev.octet.quant.cast.Lanes.HALF_MAGNITUDE;
import static dev.octet.quant.cast.Lanes.LANES;
import static dev.octet.quant.cast.Lanes.LE;
import static dev.octet.quant.cast.Lanes.SHORT;
import static dev.octet.quant.cast.Lanes.WIDE_SHORT;
import static dev.octet.quant.cast.Lanes.bf16;
import static dev.octet.quant.cast.Lanes.codes;
import static dev.octet.quant.cast.Lanes.expand;
import static dev.octet.quant.cast.Lanes.f16;
import static dev.octet.quant.cast.Lanes.f32;
import static dev.octet.quant.cast.Lanes.ints;
import static dev.octet.quant.cast.Lanes.round;
import static dev.octet.quant.cast.Lanes.shorts;
import static dev.octet.quant.cast.Lanes.store;
import static dev.octet.quant.cast.Lanes.storeBf16;
import static dev.octet.quant.cast.Lanes.storeF16;
import static dev.octet.quant.cast.Lanes.storeF32;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Half;
import java.lang.foreign.MemorySegment;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;

/**
 * The kernels of {@link ElementCastVector} for groups of {@code 1 << shift} elements, at least one vector and at most {@link ElementCastVector#TILE}:
 * each vector lies in one group, so its scale is one float. A single loop over the vectors, which looks its scale up anew in every turn, is
 * faster than one loop in another: groups are as short as one or two vectors.
 */
final class GroupLoops {

    private GroupLoops() {}

    /** How many of {@code count} elements these kernels take: the whole groups, or none when groups have another size. */
    static long whole(long count, long size) {
        boolean fits = Long.bitCount(size) == 1 && size >= LANES && size <= ElementCastVector.TILE;
        return fits ? count & -size : 0;
    }

    /** The binary logarithm of a group's size. */
    static int shift(long size) {
        return Long.numberOfTrailingZeros(size);
    }

    private static float scale(MemorySegment scales, int group) {
        return scales.get(Tensor.F32_LE, (long) group * Float.BYTES);
    }

    private static float divisor(MemorySegment scales, int group) {
        return Sizes.divisor(scale(scales, group));
    }

    static void encode(
            DType type, MemorySegment in, MemorySegment scales, int shift, Rounding r, MemorySegment out, int n) {
        if (type == DType.F32) {
            encodeF32(in, scales, shift, r, out, n);
        } else if (type == DType.BF16) {
            encodeBf16(in, scales, shift, r, out, n);
        } else {
            encodeF16(in, scales, shift, r, out, n);
        }
    }

    private static void encodeF32(
            MemorySegment in, MemorySegment scales, int shift, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(round(f32(in, i).div(divisor(scales, i >>> shift)), r), out, i);
        }
    }

    private static void encodeBf16(
            MemorySegment in, MemorySegment scales, int shift, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(round(bf16(in, i).div(divisor(scales, i >>> shift)), r), out, i);
        }
    }

    private static void encodeF16(
            MemorySegment in, MemorySegment scales, int shift, Rounding r, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            store(round(f16(in, i).div(divisor(scales, i >>> shift)), r), out, i);
        }
    }

    static void decode(
            DType type,
            MemorySegment in,
            WideningConstants e,
            MemorySegment scales,
            int shift,
            MemorySegment out,
            int n) {
        if (type == DType.F32) {
            decodeF32(in, e, scales, shift, out, n);
        } else if (type == DType.BF16) {
            decodeBf16(in, e, scales, shift, out, n);
        } else {
            decodeF16(in, e, scales, shift, out, n);
        }
    }

    private static void decodeF32(
            MemorySegment in, WideningConstants e, MemorySegment scales, int shift, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF32(expand(codes(in, i), e).mul(scale(scales, i >>> shift)), out, i);
        }
    }

    private static void decodeBf16(
            MemorySegment in, WideningConstants e, MemorySegment scales, int shift, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeBf16(expand(codes(in, i), e).mul(scale(scales, i >>> shift)), out, i);
        }
    }

    private static void decodeF16(
            MemorySegment in, WideningConstants e, MemorySegment scales, int shift, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF16(expand(codes(in, i), e).mul(scale(scales, i >>> shift)), out, i);
        }
    }

    static void amax(DType type, MemorySegment in, int shift, MemorySegment running, int n) {
        if (type == DType.F32) {
            amaxF32(in, shift, running, n);
        } else if (1 << shift == LANES) {
            amaxHalfVectors(in, type == DType.BF16, running, n);
        } else {
            amaxWideVectors(in, shift, type == DType.BF16, running, n);
        }
    }

    private static void amaxF32(MemorySegment in, int shift, MemorySegment running, int n) {
        int size = 1 << shift;
        for (int first = 0; first < n; first += size) {
            IntVector a = ints(in, first).and(Rounding.MAGNITUDE);
            for (int i = first + LANES; i < first + size; i += LANES) {
                a = a.max(ints(in, i).and(Rounding.MAGNITUDE));
            }
            raise(running, first >>> shift, a.reduceLanes(VectorOperators.MAX));
        }
    }

    private static void amaxHalfVectors(MemorySegment in, boolean bf16, MemorySegment running, int n) {
        for (int first = 0; first < n; first += LANES) {
            short bits = ShortVector.fromMemorySegment(SHORT, in, (long) first * Short.BYTES, LE)
                    .and((short) HALF_MAGNITUDE)
                    .reduceLanes(VectorOperators.MAX);
            raise(running, first / LANES, widen(bits, bf16));
        }
    }

    private static void amaxWideVectors(MemorySegment in, int shift, boolean bf16, MemorySegment running, int n) {
        int size = 1 << shift;
        int lanes = WIDE_SHORT.length();
        for (int first = 0; first < n; first += size) {
            ShortVector a = shorts(in, first).and((short) HALF_MAGNITUDE);
            for (int i = first + lanes; i < first + size; i += lanes) {
                a = a.max(shorts(in, i).and((short) HALF_MAGNITUDE));
            }
            raise(running, first >>> shift, widen(a.reduceLanes(VectorOperators.MAX), bf16));
        }
    }

    private static int widen(short bits, boolean bf16) {
        return bf16 ? bits << 16 : Float.floatToRawIntBits(Half.toFloat(bits));
    }

    private static void raise(MemorySegment running, int group, int bits) {
        long at = (long) group * Integer.BYTES;
        running.set(Tensor.I32_LE, at, Math.max(running.get(Tensor.I32_LE, at), bits));
    }
}
