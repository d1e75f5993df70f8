package dev.octet.trainer.data;

/**
 * An order of the numbers below {@code count} that follows from a key and is computed position by position, so that a run can
 * enter it anywhere and no table is kept.
 *
 * <p>A Feistel network of eight rounds over the smallest even number of bits that holds {@code count} (64 numbers at least) maps
 * positions to numbers one to one; numbers that are too large are mapped again until one fits (cycle walking: Black and Rogaway 2002,
 * "Ciphers with arbitrary finite domains", section 4). That takes four rounds of the network on average at most, 64 for the tiniest.
 */
final class SampleOrder {
    private static final int ROUNDS = 8;

    private final long count;
    private final int halfBits;
    private final long halfMask;
    private final long[] keys = new long[ROUNDS];

    SampleOrder(long count, long key) {
        this.count = count;
        int bits = 64 - Long.numberOfLeadingZeros(Math.max(count - 1, 1));
        this.halfBits = Math.max(3, Math.ceilDiv(bits, 2));
        this.halfMask = (1L << halfBits) - 1;
        long state = key;
        for (int i = 0; i < ROUNDS; i++) {
            state = mix(state + i);
            keys[i] = state;
        }
    }

    /** The number at {@code position}. */
    long at(long position) {
        long x = position;
        do {
            x = network(x);
        } while (Long.compareUnsigned(x, count) >= 0);
        return x;
    }

    private long network(long x) {
        long left = x >>> halfBits;
        long right = x & halfMask;
        for (long key : keys) {
            long next = left ^ (mix(right ^ key) & halfMask);
            left = right;
            right = next;
        }
        return (left << halfBits) | right;
    }

    /** Every input bit changes every output bit with probability near one half: the finaliser of SplittableRandom (Stafford's variant 13). */
    static long mix(long z) {
        long x = z + 0x9E3779B97F4A7C15L;
        x = (x ^ (x >>> 30)) * 0xBF58476D1CE4E5B9L;
        x = (x ^ (x >>> 27)) * 0x94D049BB133111EBL;
        return x ^ (x >>> 31);
    }
}
