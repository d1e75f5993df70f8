package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.Scratch;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** One product of decoded operands, its sums multiplied by what scales are left. */
final class ScaledProduct {
    /** Decoded operands: fresh pages for each call would take as long as a small product. */
    static final Scratch LEFT = new Scratch();

    static final Scratch RIGHT = new Scratch();
    private static final Scratch SUMS = new Scratch();

    /** Elements of a band of sums that a thread finishes at a time. */
    private static final int BAND = 8192;

    /** Sums that are there at a time, about, and the rows that these are a multiple of: the head of a language model alone would need more than all its layers. */
    private static final int SUMMED = 1 << 19;

    /** Elements of a decoded left operand that are there at a time, about, where it comes in bands. */
    static final int DECODED = 1 << 20;

    private static final int ROWS = 96;

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
        return new Operand.Whole(type, target, scalesSums ? scales : null);
    }

    /** The left operand, rounded to what its codes stand for; band by band where it is large and has one scale, which then multiplies sums. */
    Operand rounded(CodedMatrix coded, CpuTensor x, float[] quantScales) {
        DType type = type();
        float[] scales = MatrixCodes.scales(quantScales);
        MatrixCodes matrix = new MatrixCodes(coded.blocks(), cpu.parallel());
        if (scalesSums && scales.length == 1 && x.count() > DECODED) {
            return new Operand.Banded(type, scales, matrix, coded.format(), x, quantScales);
        }
        MemorySegment target = LEFT.room(x.count() * type.bits() / 8);
        matrix.round(x, quantScales, coded.format(), scalesSums ? null : scales, type, target);
        return new Operand.Whole(type, target, scalesSums ? scales : null);
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
        DType type = direct ? c.dtype() : DType.F32;
        MatrixProducts.Call call = MatrixProducts.Call.of(
                transposeA, transposeB, size.m(), size.n(), size.k(), a.type(), type, direct && accumulate);
        boolean there = direct || inPlace; // sums lie where the result does
        long most = Math.min(there ? size.m() : SUMMED / Math.max(1, size.n()), a.rows(size.k()));
        int rows = (int) (most >= size.m() ? size.m() : Math.max(ROWS, most / ROWS * ROWS));
        MemorySegment right = b.bytes();
        for (int from = 0; from < size.m(); from += rows) {
            int count = Math.min(rows, size.m() - from);
            Operand.Band band = a.band(transposeA, size, from, count);
            long at = (long) from * size.n();
            MemorySegment sums = there
                    ? c.bytes().asSlice(at * type.bits() / 8, (long) count * size.n() * type.bits() / 8)
                    : SUMS.room((long) count * size.n() * 4);
            cpu.gemm().shared(call.ofRows(count, band.stride()), band.bytes(), right, sums, cpu.parallel());
            if (!direct) {
                finish(from, count, size.n(), sums, a, b, bias, c, accumulate && !inPlace);
            }
        }
    }

    /** Scales sums of {@code count} rows of {@code n} from {@code start} on, and adds what is to be added. */
    private void finish(
            int start,
            int count,
            int n,
            MemorySegment sums,
            Operand a,
            Operand b,
            float @Nullable [] bias,
            CpuTensor c,
            boolean accumulate) {
        CpuTensor from = new CpuTensor(new OperandType(DType.F32, Shape.of(count, n)), sums);
        float[] row = a.scales() == null ? new float[] {1} : a.scales();
        float[] col = b.scales() == null ? new float[] {1} : b.scales();
        cpu.parallel().ranges(count, Math.max(1, BAND / Math.max(1, n)), (first, end) -> {
            float[] tile = new float[n];
            float[] old = new float[accumulate ? n : 0];
            for (long j = first; j < end; j++) {
                long i = start + j;
                from.read(j * n, tile, 0, n);
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
