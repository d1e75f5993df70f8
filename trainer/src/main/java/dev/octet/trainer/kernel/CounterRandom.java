package dev.octet.trainer.kernel;

/**
 * Random bits that follow from a key and a position alone: a counter-based generator (the finaliser of SplittableRandom: Steele, Lea and Flood,
 * "Fast splittable pseudorandom number generators", OOPSLA 2014). So they are the same for any number of threads, on every device, and after a resume.
 */
public final class CounterRandom {
    private static final long GOLDEN = 0x9E3779B97F4A7C15L;

    private CounterRandom() {}

    /** The key that belongs to a counter under another key. */
    public static long key(long key, long counter) {
        return mix(key + GOLDEN * (counter + 1));
    }

    /**
     * Uniform in 0 .. 2^bits - 1.
     *
     * @param bits 1 to 31
     */
    public static int bits(long key, long position, int bits) {
        return (int) (mix(key + GOLDEN * (position + 1)) >>> (64 - bits));
    }

    private static long mix(long z) {
        long a = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        long b = (a ^ (a >>> 27)) * 0x94D049BB133111EBL;
        return b ^ (b >>> 31);
    }
}
