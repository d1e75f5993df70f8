package dev.octet.trainer.reduction;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import java.util.List;

/**
 * Sums of E4M3 codes as NCCL makes them on GPUs from compute capability 9.0 (NCCL src/device/reduce_kernel.h): two codes at a time are added in F16 and cast back, saturating.
 * So a sum of N ranks is rounded N - 1 times, in the order of the algorithm; here rank by rank.
 */
public final class Fp8Sum {
    private static final Float8Format FORMAT = Float8Format.E4M3FN;
    private static final int LARGEST = 0x7E;
    private static final int MAGNITUDE = 0x7F;

    private Fp8Sum() {}

    /** {@code e4m3(half(a) + half(b))}. */
    public static byte add(byte a, byte b) {
        float sum = FORMAT.decode(a & 0xFF) + FORMAT.decode(b & 0xFF); // E4M3 is exact in F16, and so is F32's sum of two
        return (byte) FORMAT.encode(half(sum), Overflow.SATURATE);
    }

    /** Rounded to F16; sums of two codes are at most 896, far below F16's largest number. */
    private static float half(float x) {
        return Float.float16ToFloat(Float.floatToFloat16(x));
    }

    /**
     * The sum of the codes of all ranks, hop by hop in the order of ranks.
     *
     * @param ranks codes of each, of one length
     */
    public static byte[] of(List<byte[]> ranks) {
        byte[] sum = ranks.getFirst().clone();
        for (byte[] next : ranks.subList(1, ranks.size())) {
            for (int i = 0; i < sum.length; i++) {
                sum[i] = add(sum[i], next[i]);
            }
        }
        return sum;
    }

    /** How many codes are the largest number or its negative: sums that saturated, and numbers that reached it by themselves. */
    public static long saturated(byte[] codes) {
        long count = 0;
        for (byte code : codes) {
            count += (code & MAGNITUDE) == LARGEST ? 1 : 0;
        }
        return count;
    }
}
