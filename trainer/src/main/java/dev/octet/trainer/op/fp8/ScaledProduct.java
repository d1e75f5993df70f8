package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.kernel.Scratch;
import dev.octet.trainer.op.fp8.Fp8LinearCpu.Operand;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** One product of decoded operands, its sums multiplied by what scales are left. */
final class ScaledProduct {
    /** Decoded operands: fresh pages for each call would take as long as a small product. */
    static final Scratch LEFT = new Scratch();

    static final Scratch RIGHT = new Scratch();
    private static final Scratch SUMS = new Scratch();

    /** Elements of a band of sums. */
    private static final int BAND = 8192;

    private final ProductForm form;
    private final boolean scalesSums;
    private final CpuContext cpu;

    /** Rows, columns, and length of the sums. */
    record Size(int m, int n, int k) {}

    /**
     * A product.
     *
     * @param leftAlongCols whether it sums over the columns of the left operand, as that lies
     * @param rightAlongCols whether it sums over the columns of the right operand, as that lies
     */
    ScaledProduct(ProductForm form, boolean leftAlongCols, boolean rightAlongCols, CpuContext cpu) {
        this.form = form;
        this.cpu = cpu;
        this.scalesSums = form.onCodes()
                && form.left() != null
                && form.right() != null
                && form.left().hasScalePerVector(leftAlongCols)
                && form.right().hasScalePerVector(rightAlongCols);
    }

    /** Whether scales are applied to the sums. */
    boolean scalesSums() {
        return scalesSums;
    }

    /** What codes are decoded to. */
    DType type() {
        return scalesSums ? DType.BF16 : form.widened();
    }

    /** An operand from its codes. */
    Operand decoded(CodedMatrix coded, MemorySegment codes, float[] scales, Scratch place) {
        DType type = type();
        MemorySegment target = place.room(codes.byteSize() * type.bits() / 8);
        new MatrixCodes(coded.blocks(), cpu.parallel())
                .decode(coded.format(), codes, scalesSums ? null : scales, type, target);
        return new Operand(type, target, scalesSums ? scales : null, scalesSums ? coded.blocks() : null);
    }

    /**
     * c = op(a)·op(b), scaled, plus bias, or that added to c.
     *
     * @param transposeA a lies as [k, m]
     * @param transposeB b lies as [n, k]
     */
    void compute(
            boolean transposeA,
            boolean transposeB,
            Size size,
            Operand a,
            Operand b,
            float @Nullable [] bias,
            CpuTensor c,
            boolean accumulate) {
        boolean bare = a.scales() == null && b.scales() == null && bias == null;
        boolean direct = bare && (c.dtype() == DType.F32 || c.dtype() == a.type());
        boolean inPlace = !direct && !accumulate && c.dtype() == DType.F32;
        MemorySegment sums = direct || inPlace ? c.bytes() : SUMS.room((long) size.m() * size.n() * 4);
        DType type = direct ? c.dtype() : DType.F32;
        MatrixProducts.Call call = MatrixProducts.Call.of(
                transposeA, transposeB, size.m(), size.n(), size.k(), a.type(), type, direct && accumulate);
        cpu.gemm().shared(call, a.bytes(), b.bytes(), sums, cpu.parallel());
        if (!direct) {
            finish(size, sums, a, b, bias, c, accumulate);
        }
    }

    private void finish(
            Size size,
            MemorySegment sums,
            Operand a,
            Operand b,
            float @Nullable [] bias,
            CpuTensor c,
            boolean accumulate) {
        int n = size.n();
        CpuTensor from = new CpuTensor(c.type().as(DType.F32), sums);
        float[] row = a.scales() == null ? new float[] {1} : a.scales();
        float[] col = b.scales() == null ? new float[] {1} : b.scales();
        cpu.parallel().ranges(size.m(), Math.max(1, BAND / Math.max(1, n)), (first, end) -> {
            float[] tile = new float[n];
            float[] old = new float[accumulate ? n : 0];
            for (long i = first; i < end; i++) {
                from.read(i * n, tile, 0, n);
                scale(tile, row[row.length == 1 ? 0 : (int) i], col);
                if (bias != null) {
                    add(tile, bias);
                }
                if (accumulate) {
                    c.read(i * n, old, 0, n);
                    add(tile, old);
                }
                c.write(i * n, tile, 0, n);
            }
        });
    }

    private static void scale(float[] tile, float row, float[] col) {
        if (col.length == 1) {
            float both = row * col[0];
            for (int j = 0; j < tile.length; j++) {
                tile[j] *= both;
            }
            return;
        }
        for (int j = 0; j < tile.length; j++) {
            tile[j] *= row * col[j];
        }
    }

    private static void add(float[] tile, float[] more) {
        for (int j = 0; j < tile.length; j++) {
            tile[j] += more[j];
        }
    }
}
