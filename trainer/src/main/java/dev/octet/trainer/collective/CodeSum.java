package dev.octet.trainer.collective;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.Overflow;

/**
 * NCCL's sum of E4M3 numbers (src/device/reduce_kernel.h): {@code e4m3(half(x) + half(y))}. Each hop rounds and saturates (the rounding to half never shows:
 * it has more than twice the digits), so a sum of N ranks has N - 1 roundings, and depends on their order. Octet adds in the order of ranks; NCCL's rings begin at another rank for each part of a
 * buffer.
 */
public final class CodeSum {
    private static final Float8Format E4M3 = Float8Format.E4M3FN;
    private static final byte[] TABLE = table();

    private CodeSum() {}

    private static byte[] table() {
        byte[] sums = new byte[E4M3.codeCount() * E4M3.codeCount()];
        for (int x = 0; x < E4M3.codeCount(); x++) {
            for (int y = 0; y < E4M3.codeCount(); y++) {
                float half = Half.toFloat(Half.fromFloat(E4M3.decode(x) + E4M3.decode(y)));
                sums[x << 8 | y] = (byte) E4M3.encode(half, Overflow.SATURATE);
            }
        }
        return sums;
    }

    /** The code of the sum of two; NaN if one of them is. */
    public static byte of(byte x, byte y) {
        return TABLE[((x & 0xFF) << 8) | (y & 0xFF)];
    }

    /** One hop: adds {@code n} codes to the sums so far. */
    public static void add(byte[] sums, byte[] codes, int n) {
        for (int i = 0; i < n; i++) {
            sums[i] = TABLE[((sums[i] & 0xFF) << 8) | (codes[i] & 0xFF)];
        }
    }

    /** How many of {@code n} codes stand for 448 or -448, the largest magnitudes of E4M3. */
    public static int saturated(byte[] codes, int n) {
        int count = 0;
        for (int i = 0; i < n; i++) {
            count += (codes[i] & 0x7F) == E4M3.maxCode() ? 1 : 0;
        }
        return count;
    }
}
