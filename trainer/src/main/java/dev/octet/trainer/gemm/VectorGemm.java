package dev.octet.trainer.gemm;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.FusedMultiplyAdd;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Parallel;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Products with the Vector API, for machines without a native library. Operands are widened to F32 while they are packed into strips (eight
 * rows of A; two vectors of columns of B). The kernel multiplies a strip of A with a strip of B and keeps the sums in registers.
 *
 * <p>Loading this class requires the module {@code jdk.incubator.vector}; {@link Gemms#best()} checks for it.
 */
final class VectorGemm implements MatrixProducts {
    private static final VectorSpecies<Float> SPECIES = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = SPECIES.length();

    /** Without a fused multiply-add instruction, products are rounded before they are added. */
    private static final boolean FUSED = FusedMultiplyAdd.inHardware();

    /** Columns of a strip of B and of a tile of sums. */
    private static final int WIDTH = 2 * LANES;

    /** Rows of a strip of A and of a tile of sums: sixteen vectors of sums take half the registers of AVX-512. */
    private static final int HEIGHT = 8;

    /** Terms summed per pass: a strip of B of this length fits the first-level cache. */
    private static final int DEPTH = 256;

    /** Columns packed per pass: B [DEPTH, COLUMNS] fits the second-level cache. */
    private static final int COLUMNS = 256;

    /** Rows packed per pass. */
    private static final int ROWS = 96;

    @Override
    public String name() {
        return "Java, vectors of " + SPECIES.vectorBitSize() + " bits";
    }

    @Override
    public void single(Call call, MemorySegment a, MemorySegment b, MemorySegment c) {
        new Block(call, a, b, c, 0, call.m()).columns(0, call.n());
    }

    @Override
    public void shared(Call call, MemorySegment a, MemorySegment b, MemorySegment c, Parallel parallel) {
        Cuts cuts = Cuts.of(call);
        parallel.pieces(cuts.count(), p -> {
            int from = cuts.from(p);
            int length = cuts.length(p, call);
            if (cuts.alongRows()) {
                new Block(call, a, b, c, from, length).columns(0, call.n());
            } else {
                new Block(call, a, b, c, 0, call.m()).columns(from, length);
            }
        });
    }

    /** Rows of the result, computed by one thread. */
    private static final class Block {
        private final Call call;
        private final CpuTensor a;
        private final CpuTensor b;
        private final CpuTensor c;
        private final int from;
        private final int rows;
        private final int strips;
        private final float[] left = new float[ROWS * DEPTH];
        private final float[] right = new float[(COLUMNS + WIDTH) * DEPTH];
        private final float[] line = new float[Math.max(COLUMNS, DEPTH)];

        /** Tiles [HEIGHT, WIDTH]; the tiles of a strip of columns are contiguous. */
        private final float[] sums;

        Block(Call call, MemorySegment a, MemorySegment b, MemorySegment c, int from, int rows) {
            this.call = call;
            this.a = flat(a, call.operands());
            this.b = flat(b, call.operands());
            this.c = flat(c, call.result());
            this.from = from;
            this.rows = rows;
            this.strips = Math.ceilDiv(rows, HEIGHT);
            this.sums = new float[strips * HEIGHT * Math.ceilDiv(COLUMNS, WIDTH) * WIDTH];
        }

        private static CpuTensor flat(MemorySegment bytes, DType dtype) {
            return new CpuTensor(new OperandType(dtype, Shape.of(bytes.byteSize() * 8 / dtype.bits())), bytes);
        }

        void columns(int start, int count) {
            for (int j = start; j < start + count; j += COLUMNS) {
                int width = Math.min(COLUMNS, start + count - j);
                begin(j, width);
                for (int p = 0; p < call.k(); p += DEPTH) {
                    int depth = Math.min(DEPTH, call.k() - p);
                    packRight(p, depth, j, width);
                    for (int i = 0; i < rows; i += ROWS) {
                        int height = Math.min(ROWS, rows - i);
                        packLeft(from + i, height, p, depth);
                        multiply(i / HEIGHT, Math.ceilDiv(height, HEIGHT), Math.ceilDiv(width, WIDTH), depth);
                    }
                }
                end(j, width);
            }
        }

        private int tile(int strip, int column) {
            return (column * strips + strip) * HEIGHT * WIDTH;
        }

        private void begin(int j, int width) {
            Arrays.fill(sums, 0);
            for (int i = 0; call.accumulate() && i < rows; i++) {
                c.read((from + i) * call.ldc() + j, line, 0, width);
                for (int w = 0; w < width; w += WIDTH) {
                    int to = tile(i / HEIGHT, w / WIDTH) + i % HEIGHT * WIDTH;
                    System.arraycopy(line, w, sums, to, Math.min(WIDTH, width - w));
                }
            }
        }

        private void end(int j, int width) {
            for (int i = 0; i < rows; i++) {
                for (int w = 0; w < width; w += WIDTH) {
                    int at = tile(i / HEIGHT, w / WIDTH) + i % HEIGHT * WIDTH;
                    System.arraycopy(sums, at, line, w, Math.min(WIDTH, width - w));
                }
                c.write((from + i) * call.ldc() + j, line, 0, width);
            }
        }

        /** Packs columns of B; the part of a strip beyond the matrix is left as it is and never read. */
        private void packRight(int p, int depth, int j, int width) {
            pack(b, call.ldb(), call.transposeB(), j, width, p, depth, right, WIDTH);
        }

        private void packLeft(int i, int height, int p, int depth) {
            pack(a, call.lda(), !call.transposeA(), i, height, p, depth, left, HEIGHT);
        }

        /**
         * Packs rows of A or columns of B as strips: element (line l, term p) of a strip is at p·strip + l; strips are DEPTH terms apart.
         *
         * @param linesAreRows whether the terms of a line are contiguous in the operand; otherwise the lines are
         * @param strip lines per strip
         */
        private void pack(
                CpuTensor operand,
                long stride,
                boolean linesAreRows,
                int first,
                int lines,
                int p,
                int depth,
                float[] packed,
                int strip) {
            if (linesAreRows) {
                for (int l = 0; l < lines; l++) {
                    operand.read((first + l) * stride + p, line, 0, depth);
                    int to = l / strip * strip * DEPTH + l % strip;
                    for (int q = 0; q < depth; q++) {
                        packed[to + q * strip] = line[q];
                    }
                }
                return;
            }
            for (int q = 0; q < depth; q++) {
                operand.read((p + q) * stride + first, line, 0, lines);
                for (int l = 0; l < lines; l += strip) {
                    System.arraycopy(line, l, packed, l * DEPTH + q * strip, Math.min(strip, lines - l));
                }
            }
        }

        private void multiply(int firstStrip, int heightStrips, int widthStrips, int depth) {
            for (int w = 0; w < widthStrips; w++) {
                for (int h = 0; h < heightStrips; h++) {
                    kernel(left, h * HEIGHT * DEPTH, right, w * WIDTH * DEPTH, depth, sums, tile(firstStrip + h, w));
                }
            }
        }
    }

    /** c [HEIGHT, WIDTH] += strip of A times strip of B. Unrolled by hand: sums in an array of vectors would not stay in registers. */
    private static void kernel(float[] a, int fromA, float[] b, int fromB, int depth, float[] c, int at) {
        FloatVector c00 = FloatVector.fromArray(SPECIES, c, at + 0 * WIDTH);
        FloatVector c01 = FloatVector.fromArray(SPECIES, c, at + 0 * WIDTH + LANES);
        FloatVector c10 = FloatVector.fromArray(SPECIES, c, at + 1 * WIDTH);
        FloatVector c11 = FloatVector.fromArray(SPECIES, c, at + 1 * WIDTH + LANES);
        FloatVector c20 = FloatVector.fromArray(SPECIES, c, at + 2 * WIDTH);
        FloatVector c21 = FloatVector.fromArray(SPECIES, c, at + 2 * WIDTH + LANES);
        FloatVector c30 = FloatVector.fromArray(SPECIES, c, at + 3 * WIDTH);
        FloatVector c31 = FloatVector.fromArray(SPECIES, c, at + 3 * WIDTH + LANES);
        FloatVector c40 = FloatVector.fromArray(SPECIES, c, at + 4 * WIDTH);
        FloatVector c41 = FloatVector.fromArray(SPECIES, c, at + 4 * WIDTH + LANES);
        FloatVector c50 = FloatVector.fromArray(SPECIES, c, at + 5 * WIDTH);
        FloatVector c51 = FloatVector.fromArray(SPECIES, c, at + 5 * WIDTH + LANES);
        FloatVector c60 = FloatVector.fromArray(SPECIES, c, at + 6 * WIDTH);
        FloatVector c61 = FloatVector.fromArray(SPECIES, c, at + 6 * WIDTH + LANES);
        FloatVector c70 = FloatVector.fromArray(SPECIES, c, at + 7 * WIDTH);
        FloatVector c71 = FloatVector.fromArray(SPECIES, c, at + 7 * WIDTH + LANES);
        for (int p = 0; p < depth; p++) {
            FloatVector b0 = FloatVector.fromArray(SPECIES, b, fromB + p * WIDTH);
            FloatVector b1 = FloatVector.fromArray(SPECIES, b, fromB + p * WIDTH + LANES);
            int x = fromA + p * HEIGHT;
            FloatVector a0 = FloatVector.broadcast(SPECIES, a[x + 0]);
            c00 = FUSED ? a0.fma(b0, c00) : a0.mul(b0).add(c00);
            c01 = FUSED ? a0.fma(b1, c01) : a0.mul(b1).add(c01);
            FloatVector a1 = FloatVector.broadcast(SPECIES, a[x + 1]);
            c10 = FUSED ? a1.fma(b0, c10) : a1.mul(b0).add(c10);
            c11 = FUSED ? a1.fma(b1, c11) : a1.mul(b1).add(c11);
            FloatVector a2 = FloatVector.broadcast(SPECIES, a[x + 2]);
            c20 = FUSED ? a2.fma(b0, c20) : a2.mul(b0).add(c20);
            c21 = FUSED ? a2.fma(b1, c21) : a2.mul(b1).add(c21);
            FloatVector a3 = FloatVector.broadcast(SPECIES, a[x + 3]);
            c30 = FUSED ? a3.fma(b0, c30) : a3.mul(b0).add(c30);
            c31 = FUSED ? a3.fma(b1, c31) : a3.mul(b1).add(c31);
            FloatVector a4 = FloatVector.broadcast(SPECIES, a[x + 4]);
            c40 = FUSED ? a4.fma(b0, c40) : a4.mul(b0).add(c40);
            c41 = FUSED ? a4.fma(b1, c41) : a4.mul(b1).add(c41);
            FloatVector a5 = FloatVector.broadcast(SPECIES, a[x + 5]);
            c50 = FUSED ? a5.fma(b0, c50) : a5.mul(b0).add(c50);
            c51 = FUSED ? a5.fma(b1, c51) : a5.mul(b1).add(c51);
            FloatVector a6 = FloatVector.broadcast(SPECIES, a[x + 6]);
            c60 = FUSED ? a6.fma(b0, c60) : a6.mul(b0).add(c60);
            c61 = FUSED ? a6.fma(b1, c61) : a6.mul(b1).add(c61);
            FloatVector a7 = FloatVector.broadcast(SPECIES, a[x + 7]);
            c70 = FUSED ? a7.fma(b0, c70) : a7.mul(b0).add(c70);
            c71 = FUSED ? a7.fma(b1, c71) : a7.mul(b1).add(c71);
        }
        c00.intoArray(c, at + 0 * WIDTH);
        c01.intoArray(c, at + 0 * WIDTH + LANES);
        c10.intoArray(c, at + 1 * WIDTH);
        c11.intoArray(c, at + 1 * WIDTH + LANES);
        c20.intoArray(c, at + 2 * WIDTH);
        c21.intoArray(c, at + 2 * WIDTH + LANES);
        c30.intoArray(c, at + 3 * WIDTH);
        c31.intoArray(c, at + 3 * WIDTH + LANES);
        c40.intoArray(c, at + 4 * WIDTH);
        c41.intoArray(c, at + 4 * WIDTH + LANES);
        c50.intoArray(c, at + 5 * WIDTH);
        c51.intoArray(c, at + 5 * WIDTH + LANES);
        c60.intoArray(c, at + 6 * WIDTH);
        c61.intoArray(c, at + 6 * WIDTH + LANES);
        c70.intoArray(c, at + 7 * WIDTH);
        c71.intoArray(c, at + 7 * WIDTH + LANES);
    }
}
