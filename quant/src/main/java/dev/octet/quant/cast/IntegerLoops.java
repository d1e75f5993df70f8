package dev.octet.quant.cast;

import static dev.octet.quant.cast.Lanes.BYTE;
import static dev.octet.quant.cast.Lanes.FLOAT;
import static dev.octet.quant.cast.Lanes.INT;
import static dev.octet.quant.cast.Lanes.LANES;
import static dev.octet.quant.cast.Lanes.LE;
import static dev.octet.quant.cast.Lanes.bf16;
import static dev.octet.quant.cast.Lanes.f16;
import static dev.octet.quant.cast.Lanes.f32;
import static dev.octet.quant.cast.Lanes.store;
import static dev.octet.quant.cast.Lanes.storeBf16;
import static dev.octet.quant.cast.Lanes.storeF16;
import static dev.octet.quant.cast.Lanes.storeF32;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/** The kernels of {@link ElementCastVector} for integers of 4 and 8 bits. */
final class IntegerLoops {
    /** 1.5 * 2^23: the last mantissa bit of the floats around it is worth 1, so adding it rounds to an integer in the low bits. */
    private static final float MAGIC = 0x1.8p23f;

    private IntegerLoops() {}

    static void encode(
            DType type, MemorySegment in, float divisor, int zeroPoint, QuantType integers, MemorySegment out, int n) {
        if (type == DType.F32) {
            encodeF32(in, divisor, zeroPoint, integers, out, n);
        } else if (type == DType.BF16) {
            encodeBf16(in, divisor, zeroPoint, integers, out, n);
        } else {
            encodeF16(in, divisor, zeroPoint, integers, out, n);
        }
    }

    private static void encodeF32(
            MemorySegment in, float divisor, int zeroPoint, QuantType integers, MemorySegment out, int n) {
        int lowest = integers.lowest();
        int highest = integers.highest();
        for (int i = 0; i < n; i += LANES) {
            store(round(f32(in, i).div(divisor), zeroPoint, lowest, highest), out, i);
        }
    }

    private static void encodeBf16(
            MemorySegment in, float divisor, int zeroPoint, QuantType integers, MemorySegment out, int n) {
        int lowest = integers.lowest();
        int highest = integers.highest();
        for (int i = 0; i < n; i += LANES) {
            store(round(bf16(in, i).div(divisor), zeroPoint, lowest, highest), out, i);
        }
    }

    private static void encodeF16(
            MemorySegment in, float divisor, int zeroPoint, QuantType integers, MemorySegment out, int n) {
        int lowest = integers.lowest();
        int highest = integers.highest();
        for (int i = 0; i < n; i += LANES) {
            store(round(f16(in, i).div(divisor), zeroPoint, lowest, highest), out, i);
        }
    }

    /**
     * Rounds and adds the zero point; integers modulo 256. Cutting comes first, to whole steps, so that it commutes with rounding; what is
     * not below the largest code, NaN too, becomes it.
     */
    private static IntVector round(FloatVector quotient, int zeroPoint, int lowest, int highest) {
        float top = highest - zeroPoint;
        float bottom = lowest - zeroPoint;
        FloatVector most = FloatVector.broadcast(FLOAT, top).blend(quotient, quotient.compare(VectorOperators.LT, top));
        FloatVector steps = FloatVector.broadcast(FLOAT, bottom).blend(most, most.compare(VectorOperators.GT, bottom));
        return steps.add(MAGIC).reinterpretAsInts().add(zeroPoint); // the bits of MAGIC are 0 modulo 256
    }

    static void decode(DType type, MemorySegment in, float scale, int zeroPoint, MemorySegment out, int n) {
        if (type == DType.F32) {
            decodeF32(in, scale, zeroPoint, out, n);
        } else if (type == DType.BF16) {
            decodeBf16(in, scale, zeroPoint, out, n);
        } else {
            decodeF16(in, scale, zeroPoint, out, n);
        }
    }

    private static void decodeF32(MemorySegment in, float scale, int zeroPoint, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF32(steps(in, i, zeroPoint).mul(scale), out, i);
        }
    }

    private static void decodeBf16(MemorySegment in, float scale, int zeroPoint, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeBf16(steps(in, i, zeroPoint).mul(scale), out, i);
        }
    }

    private static void decodeF16(MemorySegment in, float scale, int zeroPoint, MemorySegment out, int n) {
        for (int i = 0; i < n; i += LANES) {
            storeF16(steps(in, i, zeroPoint).mul(scale), out, i);
        }
    }

    private static FloatVector steps(MemorySegment in, int i, int zeroPoint) {
        IntVector codes =
                (IntVector) ByteVector.fromMemorySegment(BYTE, in, i, LE).convertShape(VectorOperators.B2I, INT, 0);
        return (FloatVector) codes.sub(zeroPoint).convert(VectorOperators.I2F, 0);
    }

    /** The ends of the range that holds all elements and zero, as {@link #smallest} and {@link #largest} take them apart. */
    static long range(DType type, MemorySegment in, int n) {
        return type == DType.F32 ? rangeF32(in, n) : type == DType.BF16 ? rangeBf16(in, n) : rangeF16(in, n);
    }

    static float smallest(long range) {
        return Float.intBitsToFloat((int) (range >> 32));
    }

    static float largest(long range) {
        return Float.intBitsToFloat((int) range);
    }

    private static long rangeF32(MemorySegment in, int n) {
        FloatVector smallest = FloatVector.zero(FLOAT);
        FloatVector largest = smallest;
        for (int i = 0; i < n; i += LANES) {
            FloatVector x = f32(in, i);
            smallest = smallest.blend(x, x.compare(VectorOperators.LT, smallest));
            largest = largest.blend(x, x.compare(VectorOperators.GT, largest));
        }
        return range(smallest, largest);
    }

    private static long rangeBf16(MemorySegment in, int n) {
        FloatVector smallest = FloatVector.zero(FLOAT);
        FloatVector largest = smallest;
        for (int i = 0; i < n; i += LANES) {
            FloatVector x = bf16(in, i);
            smallest = smallest.blend(x, x.compare(VectorOperators.LT, smallest));
            largest = largest.blend(x, x.compare(VectorOperators.GT, largest));
        }
        return range(smallest, largest);
    }

    private static long rangeF16(MemorySegment in, int n) {
        FloatVector smallest = FloatVector.zero(FLOAT);
        FloatVector largest = smallest;
        for (int i = 0; i < n; i += LANES) {
            FloatVector x = f16(in, i);
            smallest = smallest.blend(x, x.compare(VectorOperators.LT, smallest));
            largest = largest.blend(x, x.compare(VectorOperators.GT, largest));
        }
        return range(smallest, largest);
    }

    private static long range(FloatVector smallest, FloatVector largest) {
        int low = Float.floatToRawIntBits(smallest.reduceLanes(VectorOperators.MIN));
        int high = Float.floatToRawIntBits(largest.reduceLanes(VectorOperators.MAX));
        return ((long) low << 32) | (high & 0xFFFFFFFFL);
    }
}
