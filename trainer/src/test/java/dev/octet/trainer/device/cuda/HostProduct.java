package dev.octet.trainer.device.cuda;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaProduct.ScaleMode;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A matrix product by plain loops, refused wherever cublasLt would refuse it (cuBLAS 13, tables 2 and 3). */
final class HostProduct {
    private static final int RUN = 64;

    private final CudaProduct p;
    private final HostMemory memory;

    /**
     * @throws IllegalArgumentException for a product that cublasLt does not compute: which rule
     * @throws IllegalStateException for an operand that is not within one allocation
     */
    HostProduct(CudaProduct product, HostMemory memory, int capability) {
        this.p = product;
        this.memory = memory;
        checkShapes();
        if (p.isFp8()) {
            rule(capability >= GpuInfo.FP8, "FP8 products need compute capability 8.9, not " + capability);
            checkFp8();
        } else {
            checkWide();
        }
        rows(p.a(), aRows(), aCols(), "a");
        rows(p.b(), bRows(), bCols(), "b");
        rows(p.d(), p.m(), p.n(), "d");
        if (p.bias() != 0) {
            memory.at(p.bias(), (long) p.n() * p.biasType().bits() / 8, "bias of a product");
        }
        if (p.scaleMode() != ScaleMode.ONE) {
            rule(p.scaleA() != 0 && p.scaleB() != 0 && p.batch() == 1, "scales of parts of both operands, no batch");
        }
        if (p.scaleMode().isOfBlocks()) {
            rule(capability == 90, "scales of blocks on Hopper, not on " + capability);
            rule(p.m() % 4 == 0 && p.n() % 4 == 0, "m and n are multiples of 4 where blocks have scales");
            rule(p.scaleA() % 16 == 0 && p.scaleB() % 16 == 0, "scales of blocks are aligned to 16 bytes");
            rule(!p.fastSums(), "no fast sums with scales of blocks");
        }
        allScales();
    }

    /** Of both operands, by block along k. */
    private record Scales(List<float[]> left, List<float[]> right) {}

    /** The scale of each vector of both operands for each block of 128 along k, or for all of it. */
    private Scales allScales() {
        return switch (p.scaleMode()) {
            case ONE, PER_VECTOR -> new Scales(List.of(scales(p.scaleA(), p.m())), List.of(scales(p.scaleB(), p.n())));
            case PER_RUN -> new Scales(runs(p.scaleA(), p.m()), runs(p.scaleB(), p.n()));
            case PER_RUN_AND_SQUARE -> new Scales(runs(p.scaleA(), p.m()), squares(p.scaleB(), p.n()));
            case PER_SQUARE_AND_RUN -> new Scales(squares(p.scaleA(), p.m()), runs(p.scaleB(), p.n()));
        };
    }

    private int blocks() {
        return (p.k() + 127) / 128;
    }

    /** cuBLAS 13, "Scaling factors layouts": [blocks of k][vectors]. */
    private List<float[]> runs(long address, int vectors) {
        MemorySegment all = memory.at(address, 4L * blocks() * vectors, "scales of a product");
        List<float[]> scales = new ArrayList<>();
        for (int b = 0; b < blocks(); b++) {
            float[] of = new float[vectors];
            for (int i = 0; i < vectors; i++) {
                of[i] = all.get(JAVA_FLOAT_UNALIGNED, 4L * (b * vectors + i));
            }
            scales.add(of);
        }
        return scales;
    }

    /** The same: [blocks of vectors][blocks of k, their number rounded up to a multiple of 4]. */
    private List<float[]> squares(long address, int vectors) {
        int pitch = (blocks() + 3) / 4 * 4;
        MemorySegment all = memory.at(address, 4L * ((vectors + 127) / 128) * pitch, "scales of a product");
        List<float[]> scales = new ArrayList<>();
        for (int b = 0; b < blocks(); b++) {
            float[] of = new float[vectors];
            for (int i = 0; i < vectors; i++) {
                of[i] = all.get(JAVA_FLOAT_UNALIGNED, 4L * (i / 128 * pitch + b));
            }
            scales.add(of);
        }
        return scales;
    }

    /** The scale of each vector of an operand. */
    private float[] scales(long address, int vectors) {
        float[] scales = new float[vectors];
        boolean one = p.scaleMode() == ScaleMode.ONE;
        if (address == 0) {
            Arrays.fill(scales, 1);
            return scales;
        }
        rule(address % 4 == 0, "scales are aligned to 4 bytes");
        MemorySegment all = memory.at(address, one ? 4 : 4L * vectors, "scales of a product");
        for (int i = 0; i < vectors; i++) {
            scales[i] = all.get(JAVA_FLOAT_UNALIGNED, one ? 0 : 4L * i);
        }
        return scales;
    }

    private int aRows() {
        return p.transposeA() ? p.k() : p.m();
    }

    private int aCols() {
        return p.transposeA() ? p.m() : p.k();
    }

    private int bRows() {
        return p.transposeB() ? p.n() : p.k();
    }

    private int bCols() {
        return p.transposeB() ? p.k() : p.n();
    }

    private void checkShapes() {
        rule(p.m() > 0 && p.n() > 0 && p.k() > 0, "m, n and k are at least 1");
        rule(p.batch() > 0 && p.batch() < 65536, "a batch of " + p.batch());
        rule(p.a().leading() >= aCols(), "rows of a have " + aCols() + " elements, its leading dimension is less");
        rule(p.b().leading() >= bCols(), "rows of b have " + bCols() + " elements, its leading dimension is less");
        rule(p.d().leading() >= p.n(), "rows of d have " + p.n() + " elements, its leading dimension is less");
        rule(
                p.batch() == 1 || Math.abs(p.d().stride()) >= (p.m() - 1) * p.d().leading() + p.n(),
                "the matrices d of a batch overlap");
    }

    private void checkWide() {
        DType type = p.a().type();
        rule(type == p.b().type(), "a and b have one type");
        boolean known = switch (type) {
            case F32 -> p.d().type() == DType.F32;
            case BF16, F16 -> p.d().type() == type || p.d().type() == DType.F32;
            default -> false;
        };
        rule(known, "F32 gives F32; BF16 and F16 give themselves or F32");
        rule(p.scaleA() == 0 && p.scaleB() == 0, "only FP8 operands have scales");
        rule(p.bias() == 0 || p.biasType() == p.d().type(), "the bias has d's type");
        for (Matrix matrix : new Matrix[] {p.a(), p.b(), p.d()}) {
            rule(matrix.address() % (matrix.type().bits() / 8) == 0, "matrices are aligned to their elements");
        }
    }

    private void checkFp8() {
        rule(!p.transposeA() && p.transposeB(), "FP8 operands: a as it is, b transposed");
        rule(isFp8(p.a().type()) && isFp8(p.b().type()), "both operands are FP8 codes, or none");
        rule(p.a().type() != DType.F8_E5M2 || p.b().type() != DType.F8_E5M2, "not both operands are E5M2");
        DType d = p.d().type();
        rule(d == DType.BF16 || d == DType.F16 || d == DType.F32, "FP8 operands give BF16, F16 or F32");
        rule(p.k() % 16 == 0, "k is a multiple of 16");
        rule(p.a().leading() % 16 == 0 && p.b().leading() % 16 == 0, "leading dimensions of codes are multiples of 16");
        rule((long) p.n() * d.bits() / 8 % 16 == 0, "a row of d is a multiple of 16 bytes");
        rule(p.d().leading() * d.bits() / 8 % 16 == 0, "d's leading dimension is a multiple of 16 bytes");
        for (Matrix matrix : new Matrix[] {p.a(), p.b(), p.d()}) {
            rule(matrix.address() % 16 == 0, "matrices are aligned to 16 bytes");
            rule(matrix.stride() * matrix.type().bits() / 8 % 16 == 0, "strides are multiples of 16 bytes");
        }
        if (p.bias() != 0) {
            rule(p.bias() % 16 == 0, "the bias is aligned to 16 bytes");
            rule(
                    p.biasType() == (d == DType.F16 ? DType.F16 : DType.BF16),
                    "the bias of FP8 products is F16 for F16 results, BF16 for others");
        }
    }

    private static boolean isFp8(DType type) {
        return type == DType.F8_E4M3FN || type == DType.F8_E5M2;
    }

    private void rule(boolean holds, String what) {
        if (!holds) {
            throw new IllegalArgumentException("cublasLt does not compute this: " + what + "; asked for " + p);
        }
    }

    /** Bytes it reads and writes. */
    long bytes() {
        return p.bytes();
    }

    /** As {@code product bf16 512x768x3072}. */
    String name() {
        return p.name();
    }

    /** Computes it: products in F32 (exact for all types but F32), added in the order of k. */
    void run() {
        Scales scales = allScales();
        float[] bias = p.bias() == 0
                ? new float[p.n()]
                : row(memory.at(p.bias(), (long) p.n() * p.biasType().bits() / 8, "bias"), p.biasType(), 0, p.n());
        for (int i = 0; i < p.batch(); i++) {
            float[][] a = matrix(p.a(), i, aRows(), aCols(), p.transposeA());
            float[][] b = matrix(p.b(), i, bRows(), bCols(), p.transposeB());
            MemorySegment d = rows(p.d(), p.m(), p.n(), "d");
            for (int r = 0; r < p.m(); r++) {
                float[] sums = sums(a[r], b, scales, r);
                long first = i * p.d().stride() + r * p.d().leading();
                for (int c = 0; c < sums.length; c++) {
                    float before = p.accumulate() ? element(d, p.d().type(), first + c) : 0;
                    put(d, p.d().type(), first + c, sums[c] + before + bias[c]);
                }
            }
        }
    }

    /** A row of a times b, scaled: sums of each block that has scales. */
    private static float[] sums(float[] row, float[][] b, Scales scales, int r) {
        int blocks = scales.left().size();
        float[] sums = new float[b[0].length];
        for (int block = 0; block < blocks; block++) {
            int from = blocks == 1 ? 0 : block * 128;
            float[] part = sums(row, b, from, blocks == 1 ? row.length : Math.min(row.length, from + 128));
            for (int c = 0; c < sums.length; c++) {
                float scaled = scales.left().get(block)[r] * scales.right().get(block)[c] * part[c];
                sums[c] = blocks == 1 ? scaled : sums[c] + scaled;
            }
        }
        return sums;
    }

    /** Of some elements of a row: sums of {@link #RUN} products, and the sum of these, as tensor cores and tiles have sums of sums. */
    private static float[] sums(float[] row, float[][] b, int from, int end) {
        float[] sums = new float[b[0].length];
        float[] run = new float[sums.length];
        for (int k = from; k < end; k++) {
            float x = row[k];
            float[] y = b[k];
            for (int c = 0; c < run.length; c++) {
                run[c] += x * y[c];
            }
            if (k % RUN == RUN - 1 || k == end - 1) {
                for (int c = 0; c < run.length; c++) {
                    sums[c] += run[c];
                    run[c] = 0;
                }
            }
        }
        return sums;
    }

    /** All the memory that the matrices of an operand span, from its first element. */
    private MemorySegment rows(Matrix matrix, int rows, int cols, String what) {
        rule(matrix.stride() >= 0, "strides are not negative");
        long elements = (p.batch() - 1) * matrix.stride() + (rows - 1) * matrix.leading() + cols;
        return memory.at(matrix.address(), elements * matrix.type().bits() / 8, "operand " + what + " of a product");
    }

    private float[][] matrix(Matrix matrix, int index, int rows, int cols, boolean transposed) {
        MemorySegment bytes = rows(matrix, rows, cols, "of a product");
        float[][] lying = new float[rows][];
        for (int r = 0; r < rows; r++) {
            lying[r] = row(bytes, matrix.type(), index * matrix.stride() + r * matrix.leading(), cols);
        }
        if (!transposed) {
            return lying;
        }
        float[][] turned = new float[cols][rows];
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < cols; c++) {
                turned[c][r] = lying[r][c];
            }
        }
        return turned;
    }

    private static float[] row(MemorySegment bytes, DType type, long first, int count) {
        float[] row = new float[count];
        for (int i = 0; i < count; i++) {
            row[i] = element(bytes, type, first + i);
        }
        return row;
    }

    private static float element(MemorySegment bytes, DType type, long i) {
        return switch (type) {
            case F32 -> bytes.get(JAVA_FLOAT_UNALIGNED, 4 * i);
            case BF16 -> BFloat16.toFloat(bytes.get(JAVA_SHORT_UNALIGNED, 2 * i));
            case F16 -> Half.toFloat(bytes.get(JAVA_SHORT_UNALIGNED, 2 * i));
            case F8_E4M3FN -> Float8Format.E4M3FN.decode(bytes.get(JAVA_BYTE, i) & 0xFF);
            case F8_E5M2 -> Float8Format.E5M2.decode(bytes.get(JAVA_BYTE, i) & 0xFF);
            default -> throw new IllegalArgumentException(type.toString());
        };
    }

    private static void put(MemorySegment bytes, DType type, long i, float x) {
        switch (type) {
            case F32 -> bytes.set(JAVA_FLOAT_UNALIGNED, 4 * i, x);
            case BF16 -> bytes.set(JAVA_SHORT_UNALIGNED, 2 * i, BFloat16.fromFloat(x));
            case F16 -> bytes.set(JAVA_SHORT_UNALIGNED, 2 * i, Half.fromFloat(x));
            default -> throw new IllegalArgumentException(type.toString());
        }
    }
}
