package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.kernel.Parallel;
import java.lang.foreign.MemorySegment;

/**
 * Products of FP8 numbers with the sums of Hopper's FP8 units, see {@link Accumulation}.
 *
 * <p>The exponent of a product is the sum of its operands' exponents, whose significands are in [1, 2), those of subnormal numbers below 1; a product of zero has none. The largest exponent of
 * a group of {@value #GROUP} products and of the sum so far is that of the group: all are cut, towards zero, to multiples of 2 to the power of it minus {@value #BITS}, added exactly, and the result is cut to
 * {@value #BITS} bits behind its first.
 */
final class HopperSums {
    static final int GROUP = 32;
    static final int BITS = 13;

    /** Of F32's 23 bits behind the first those that are cut off. */
    private static final int CUT = -1 << (23 - BITS);

    /** Below that of any product. */
    private static final int NONE = -1000;

    private final Accumulation accumulation;
    private final Float8Format left;
    private final Float8Format right;

    HopperSums(Accumulation accumulation, Float8Format left, Float8Format right) {
        this.accumulation = accumulation;
        this.left = left;
        this.right = right;
    }

    /**
     * Lines of numbers of a format, as integers times powers of two.
     *
     * @param significands with sign; {@code value = significand · 2^(exponent - fraction)}
     * @param fraction bits of a significand behind its first
     */
    @SuppressWarnings("ArrayRecordComponent") // passed along, never compared
    private record Lines(int[] significands, int[] exponents, int fraction) {
        /**
         * @param values BF16
         * @param across whether a line is a column in memory
         * @param stride elements from one row in memory to the next
         */
        static Lines of(
                Float8Format format, MemorySegment values, boolean across, long stride, int count, int k) {
            int fraction = format == Float8Format.E5M2 ? 2 : 3;
            int least = format == Float8Format.E5M2 ? -14 : -6;
            int[] significands = new int[count * k];
            int[] exponents = new int[count * k];
            for (int line = 0; line < count; line++) {
                for (int i = 0; i < k; i++) {
                    long at = across ? i * stride + line : line * stride + i;
                    float x = Float.intBitsToFloat(values.get(Tensor.I16_LE, 2 * at) << 16);
                    int exponent = Math.max(Math.getExponent(x), least);
                    significands[line * k + i] = (int) Math.scalb(x, fraction - exponent);
                    exponents[line * k + i] = exponent;
                }
            }
            return new Lines(significands, exponents, fraction);
        }
    }

    /**
     * A product with F32 sums that are not added to anything; for operands in BF16 that are numbers of the formats.
     *
     * @param sums where they go
     */
    void multiply(MatrixProducts.Call call, MemorySegment a, MemorySegment b, MemorySegment sums, Parallel parallel) {
        if (call.operands() != DType.BF16 || call.result() != DType.F32 || call.accumulate()) {
            throw new IllegalArgumentException("sums of FP8 units are F32, of BF16 operands: " + call);
        }
        int k = call.k();
        Lines rows = Lines.of(left, a, call.transposeA(), call.lda(), call.m(), k);
        Lines columns = Lines.of(right, b, !call.transposeB(), call.ldb(), call.n(), k);
        parallel.ranges(call.m(), 1, (first, end) -> {
            for (int i = (int) first; i < end; i++) {
                for (int j = 0; j < call.n(); j++) {
                    sums.set(Tensor.F32_LE, Float.BYTES * (i * call.ldc() + j), sum(rows, i * k, columns, j * k, k));
                }
            }
        });
    }

    private float sum(Lines a, int atA, Lines b, int atB, int k) {
        int shift = BITS - a.fraction - b.fraction;
        float all = 0;
        float sum = 0;
        int due = accumulation.interval();
        for (int from = 0; from < k; from += GROUP) {
            int end = Math.min(k, from + GROUP);
            int largest = sum == 0 ? NONE : Math.getExponent(sum);
            for (int i = from; i < end; i++) {
                if (a.significands[atA + i] * b.significands[atB + i] != 0) {
                    largest = Math.max(largest, a.exponents[atA + i] + b.exponents[atB + i]);
                }
            }
            if (largest > NONE) {
                int total = (int) Math.scalb(sum, BITS - largest);
                for (int i = from; i < end; i++) {
                    int product = a.significands[atA + i] * b.significands[atB + i];
                    int cut = (Math.abs(product) << shift)
                            >>> Math.min(31, largest - a.exponents[atA + i] - b.exponents[atB + i]);
                    total += product < 0 ? -cut : cut;
                }
                sum = Float.intBitsToFloat(
                        Float.floatToRawIntBits(Math.scalb((float) total, largest - BITS)) & CUT);
            }
            due -= GROUP;
            if (due <= 0) {
                all += sum;
                sum = 0;
                due = accumulation.interval();
            }
        }
        return all + sum;
    }
}
