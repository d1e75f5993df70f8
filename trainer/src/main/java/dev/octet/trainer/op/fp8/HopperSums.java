package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.kernel.Parallel;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;

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

    /** Of zero: with the exponent of any number below that of any product. */
    private static final int NONE = -200;

    /** The lowest exponent that a group is cut by; those of products are higher. */
    private static final int LEAST = -100;

    /** Columns that are computed together, so that loops over them become vectors. */
    private static final int WIDTH = 64;

    private final Accumulation accumulation;
    private final Float8Format left;
    private final Float8Format right;

    HopperSums(Accumulation accumulation, Float8Format left, Float8Format right) {
        this.accumulation = accumulation;
        this.left = left;
        this.right = right;
    }

    /** The exponent of a number as its format has it: that of the smallest normal number for subnormal ones. */
    private static int exponent(float x, Float8Format format) {
        return x == 0 ? NONE : Math.max(Math.getExponent(x), format == Float8Format.E5M2 ? -14 : -6);
    }

    private static float read(MemorySegment values, long at) {
        return Float.intBitsToFloat(values.get(Tensor.I16_LE, 2 * at) << 16);
    }

    /**
     * A product with F32 sums that are not added to anything; for operands in BF16 that are numbers of the formats.
     *
     * @param sums where they go
     */
    void multiply(MatrixProducts.Call call, MemorySegment a, MemorySegment b, MemorySegment sums, Parallel parallel) {
        if (call.operands() != DType.BF16 || call.result() != DType.F32 || call.accumulate()) {
            throw new IllegalArgumentException(
                    "sums of FP8 units are F32, of BF16 operands: not " + call.operands() + " to " + call.result());
        }
        int blocks = Math.ceilDiv(call.n(), WIDTH);
        Columns[] columns = new Columns[blocks];
        parallel.pieces(blocks, block -> columns[block] = columns(call, b, block * WIDTH));
        parallel.ranges(call.m(), 1, (first, end) -> {
            Line line = new Line(call.k());
            for (long i = first; i < end; i++) {
                line.read(call, a, i);
                for (int block = 0; block < blocks; block++) {
                    line.multiply(columns[block]);
                    int width = Math.min(WIDTH, call.n() - block * WIDTH);
                    long at = Float.BYTES * (i * call.ldc() + (long) block * WIDTH);
                    MemorySegment.copy(line.results, 0, sums, Tensor.F32_LE, at, width);
                }
            }
        });
    }

    /**
     * Numbers and exponents of some columns of op(B), [k, {@value #WIDTH}]; zeros where there are none.
     */
    @SuppressWarnings("ArrayRecordComponent") // passed along, never compared
    private record Columns(float[] values, int[] exponents) {}

    private Columns columns(MatrixProducts.Call call, MemorySegment b, int from) {
        int width = Math.min(WIDTH, call.n() - from);
        float[] values = new float[call.k() * WIDTH];
        int[] exponents = new int[call.k() * WIDTH];
        Arrays.fill(exponents, NONE);
        for (int i = 0; i < call.k(); i++) {
            for (int j = 0; j < width; j++) {
                long at = call.transposeB() ? (from + j) * call.ldb() + i : i * call.ldb() + from + j;
                float x = read(b, at);
                values[i * WIDTH + j] = x;
                exponents[i * WIDTH + j] = exponent(x, right);
            }
        }
        return new Columns(values, exponents);
    }

    /** A row of op(A), and its products with some columns. */
    private final class Line {
        private final int k;
        private final float[] values;
        private final int[] exponents;
        private final float[] results = new float[WIDTH];
        private final float[] sums = new float[WIDTH];
        private final float[] scales = new float[WIDTH];
        private final int[] largest = new int[WIDTH];
        private final int[] totals = new int[WIDTH];

        Line(int k) {
            this.k = k;
            values = new float[k];
            exponents = new int[k];
        }

        void read(MatrixProducts.Call call, MemorySegment a, long row) {
            for (int i = 0; i < k; i++) {
                values[i] = HopperSums.read(a, call.transposeA() ? i * call.lda() + row : row * call.lda() + i);
                exponents[i] = exponent(values[i], left);
            }
        }

        void multiply(Columns columns) {
            Arrays.fill(results, 0);
            Arrays.fill(sums, 0);
            int due = accumulation.interval();
            for (int from = 0; from < k; from += GROUP) {
                int end = Math.min(k, from + GROUP);
                for (int j = 0; j < WIDTH; j++) {
                    largest[j] = Math.max(LEAST, Math.getExponent(sums[j]));
                }
                for (int i = from; i < end; i++) {
                    raise(exponents[i], columns.exponents, i * WIDTH);
                }
                for (int j = 0; j < WIDTH; j++) {
                    scales[j] = Float.intBitsToFloat((BITS - largest[j] + Float.MAX_EXPONENT) << 23);
                    totals[j] = (int) (sums[j] * scales[j]);
                }
                for (int i = from; i < end; i++) {
                    add(values[i], columns.values, i * WIDTH);
                }
                for (int j = 0; j < WIDTH; j++) {
                    float one = Float.intBitsToFloat((largest[j] - BITS + Float.MAX_EXPONENT) << 23);
                    sums[j] = Float.intBitsToFloat(Float.floatToRawIntBits(totals[j] * one) & CUT);
                }
                due -= GROUP;
                if (due <= 0 || end == k) {
                    for (int j = 0; j < WIDTH; j++) {
                        results[j] += sums[j];
                        sums[j] = 0;
                    }
                    due = accumulation.interval();
                }
            }
        }

        private void raise(int exponent, int[] others, int at) {
            for (int j = 0; j < WIDTH; j++) {
                largest[j] = Math.max(largest[j], exponent + others[at + j]);
            }
        }

        /** Casts to integers cut towards zero. */
        private void add(float x, float[] others, int at) {
            for (int j = 0; j < WIDTH; j++) {
                totals[j] += (int) (x * others[at + j] * scales[j]);
            }
        }
    }
}
