package dev.octet.quant.measure;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.Floats;
import java.lang.foreign.MemorySegment;

/**
 * The error of approximate values: sums over pairs, from which the usual measures follow. Immutable; measure a tensor in pieces and add
 * them with {@link #plus}. All sums are doubles; the same pieces added in the same order give the same results.
 *
 * @param count number of pairs
 * @param signal sum of squares of the exact values
 * @param noise sum of squares of the differences
 * @param approximate sum of squares of the approximate values
 * @param product sum of the products of the pairs
 * @param maxError largest difference, absolute; NaN when a pair holds a NaN or two infinities of one sign
 * @param maxUlp largest difference counted in FP32 numbers between the two; {@link Long#MAX_VALUE} when a pair holds a NaN
 */
public record CastError(
        long count, double signal, double noise, double approximate, double product, double maxError, long maxUlp) {
    /** No pairs yet. */
    public static final CastError NONE = new CastError(0, 0, 0, 0, 0, 0, 0);

    /**
     * Measures tensors of the same shape; each F32, BF16 or F16.
     *
     * @throws IllegalArgumentException when shapes differ or a type is another
     */
    public static CastError between(Tensor exact, Tensor approximate) {
        if (!exact.shape().equals(approximate.shape())) {
            throw new IllegalArgumentException(exact.spec() + " against " + approximate.spec());
        }
        return between(
                exact.dtype(),
                exact.bytes(),
                approximate.dtype(),
                approximate.bytes(),
                exact.shape().elementCount());
    }

    /**
     * Measures the first {@code count} elements of two runs of F32, BF16 or F16.
     *
     * @throws IllegalArgumentException when a type is another
     * @throws IndexOutOfBoundsException when a run is shorter
     */
    public static CastError between(
            DType exactType, MemorySegment exact, DType approximateType, MemorySegment approximate, long count) {
        double signal = 0;
        double noise = 0;
        double squares = 0;
        double product = 0;
        double maxError = 0;
        long maxUlp = 0;
        for (long i = 0; i < count; i++) {
            float x = Floats.get(exactType, exact, i);
            float y = Floats.get(approximateType, approximate, i);
            double error = (double) x - y;
            signal += (double) x * x;
            noise += error * error;
            squares += (double) y * y;
            product += (double) x * y;
            maxError = Math.max(maxError, Math.abs(error));
            maxUlp = Math.max(maxUlp, ulpsBetween(x, y));
        }
        return new CastError(count, signal, noise, squares, product, maxError, maxUlp);
    }

    /** The error over both sets of pairs. */
    public CastError plus(CastError other) {
        return new CastError(
                count + other.count,
                signal + other.signal,
                noise + other.noise,
                approximate + other.approximate,
                product + other.product,
                Math.max(maxError, other.maxError),
                Math.max(maxUlp, other.maxUlp));
    }

    /**
     * Signal to quantisation noise ratio in dB, {@code 10 log10(signal / noise)}: infinity without noise (zeros that stayed zeros
     * included), negative infinity for noise where all exact values are zero.
     */
    public double sqnrDb() {
        return noise == 0 ? Double.POSITIVE_INFINITY : 10 * Math.log10(signal / noise);
    }

    /** Cosine of the angle between the two as vectors, in -1 .. 1; 1 when both are zero, 0 when one is. */
    public double cosine() {
        if (signal == 0 || approximate == 0) {
            return signal == approximate ? 1 : 0;
        }
        // Two roots: the product of two large sums could overflow.
        double cosine = product / (Math.sqrt(signal) * Math.sqrt(approximate));
        return Double.isNaN(cosine) ? cosine : Math.clamp(cosine, -1.0, 1.0);
    }

    /** Mean of the squared differences; NaN without pairs. */
    public double meanSquaredError() {
        return noise / count;
    }

    private static long ulpsBetween(float x, float y) {
        if (Float.isNaN(x) || Float.isNaN(y)) {
            return Long.MAX_VALUE;
        }
        return Math.abs(position(x) - position(y));
    }

    /** Numbers all floats in their order; both zeros are 0. */
    private static long position(float x) {
        int bits = Float.floatToRawIntBits(x);
        return bits >= 0 ? bits : -(long) (bits & 0x7FFFFFFF);
    }
}
