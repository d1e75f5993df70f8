package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.Float8Format;
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

    /** Elements of an operand that are decoded at a time, about, where it comes in bands; the right one's more, since each of its bands has the left one decoded anew. */
    private static final int LEFT_BAND = 1 << 20;

    private static final int RIGHT_BAND = 3 << 19;

    private static final int ROWS = 96;

    /** Its compute capability. */
    private static final int HOPPER = 90;

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
        this.scalesSums = scalesSums(form, leftAlongCols, rightAlongCols);
    }

    /** Bytes of operands that {@link #decoded} or {@link #rounded} have at a time, for products of a Linear. */
    record Decoded(long left, long right) {
        static Decoded of(Fp8Linear op) {
            long x = (long) op.rows() * op.in();
            long y = (long) op.rows() * op.out();
            long w = (long) op.in() * op.out();
            Decoded forward = of(op.fprop(), true, op.transB(), x, w);
            Decoded backward = of(op.dgrad(), true, !op.transB(), y, w).and(of(op.wgrad(), false, false, y, x));
            return forward.and(backward);
        }

        private static Decoded of(ProductForm form, boolean leftAlongCols, boolean rightAlongCols, long l, long r) {
            boolean scalesSums = scalesSums(form, leftAlongCols, rightAlongCols);
            DType type = scalesSums ? DType.BF16 : form.widened();
            return new Decoded(
                    bytes(form.left(), scalesSums, type, l, LEFT_BAND),
                    bytes(form.right(), scalesSums, type, r, RIGHT_BAND));
        }

        private static long bytes(
                @Nullable CodedMatrix coded, boolean scalesSums, DType type, long elements, long band) {
            if (coded == null) {
                return 0;
            }
            boolean inBands = scalesSums && coded.blocks().scaleCount() == 1;
            return (inBands ? Math.min(elements, band) : elements) * type.bits() / Byte.SIZE;
        }

        /** Of two products, which use the same room one after the other. */
        Decoded and(Decoded other) {
            return new Decoded(Math.max(left, other.left), Math.max(right, other.right));
        }
    }

    private static boolean scalesSums(ProductForm form, boolean leftAlongCols, boolean rightAlongCols) {
        return form.onCodes()
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
        MatrixCodes matrix = new MatrixCodes(coded.blocks(), cpu.parallel());
        if (scalesSums && scales.length == 1 && codes.byteSize() > RIGHT_BAND) {
            return new Operand.Coded(type, scales, matrix, coded.format(), codes, place);
        }
        MemorySegment target = place.room(codes.byteSize() * type.bits() / 8);
        matrix.decode(coded.format(), codes, scalesSums ? null : scales, type, target);
        return new Operand.Whole(type, target, scalesSums ? scales : null, coded.format());
    }

    /** The left operand, rounded to what its codes stand for; band by band where it is large and has one scale, which then multiplies sums. */
    Operand rounded(CodedMatrix coded, CpuTensor x, float[] quantScales) {
        DType type = type();
        float[] scales = MatrixCodes.scales(quantScales);
        MatrixCodes matrix = new MatrixCodes(coded.blocks(), cpu.parallel());
        if (scalesSums && scales.length == 1 && x.count() > LEFT_BAND) {
            return new Operand.Rounded(type, scales, matrix, coded.format(), x, quantScales[0]);
        }
        MemorySegment target = LEFT.room(x.count() * type.bits() / 8);
        matrix.round(x, quantScales, coded.format(), scalesSums ? null : scales, type, target);
        return new Operand.Whole(type, target, scalesSums ? scales : null, coded.format());
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
        HopperSums unit = unit(transposeA, transposeB, size, a, b, c);
        int columns = b.isWhole() ? size.n() : lines(RIGHT_BAND / Math.max(1, size.k()), size.n());
        long most = Math.min(
                there ? size.m() : SUMMED / Math.max(1, columns),
                a.isWhole() ? size.m() : LEFT_BAND / Math.max(1, size.k()));
        int rows = lines(most, size.m());
        for (int column = 0; column < size.n(); column += columns) {
            int width = Math.min(columns, size.n() - column);
            Operand.Band right = b.band(!transposeB, size.n(), size.k(), column, width);
            for (int row = 0; row < size.m(); row += rows) {
                Part part = new Part(row, Math.min(rows, size.m() - row), column, width, there ? size.n() : width);
                Operand.Band left = a.band(transposeA, size.m(), size.k(), row, part.rows);
                MemorySegment sums = there
                        ? c.bytes().asSlice(((long) row * size.n() + column) * type.bits() / 8)
                        : SUMS.room((long) part.rows * width * 4);
                MatrixProducts.Call ofPart = call.ofPart(part.rows, width, left.stride(), right.stride(), part.stride);
                if (unit == null) {
                    cpu.gemm().shared(ofPart, left.bytes(), right.bytes(), sums, cpu.parallel());
                } else {
                    unit.multiply(ofPart, left.bytes(), right.bytes(), sums, cpu.parallel());
                }
                if (!direct) {
                    finish(part, size.n(), sums, a, b, bias, c, accumulate && !inPlace);
                }
            }
        }
    }

    /** The sums of an FP8 unit; null for F32, and where a GPU would widen the codes as well. */
    private @Nullable HopperSums unit(
            boolean transposeA, boolean transposeB, Size size, Operand a, Operand b, CpuTensor c) {
        Float8Format left = a.format();
        Float8Format right = b.format();
        CudaScaledProduct.Size asked = new CudaScaledProduct.Size(size.m(), size.n(), size.k());
        boolean computed = form.accumulation().isHopper()
                && scalesSums
                && CudaScaledProduct.isFp8(form, !transposeA, transposeB, asked, c.dtype(), HOPPER);
        return computed && left != null && right != null ? new HopperSums(form.accumulation(), left, right) : null;
    }

    /** Lines of a band: all, or a multiple of those that a product is cut at. */
    private static int lines(long most, int all) {
        return most >= all ? Math.max(1, all) : (int) Math.max(ROWS, most / ROWS * ROWS);
    }

    /**
     * A rectangle of the result, and its sums.
     *
     * @param stride sums from one row to the next
     */
    private record Part(int row, int rows, int column, int columns, int stride) {}

    /** Scales the sums of a part of rows of {@code n}, and adds what is to be added. */
    private void finish(
            Part part,
            int n,
            MemorySegment sums,
            Operand a,
            Operand b,
            float @Nullable [] bias,
            CpuTensor c,
            boolean accumulate) {
        CpuTensor from = new CpuTensor(new OperandType(DType.F32, Shape.of(sums.byteSize() / 4)), sums);
        float[] row = a.scales() == null ? new float[] {1} : a.scales();
        float[] col = b.scales() == null ? new float[] {1} : b.scales();
        int width = part.columns;
        cpu.parallel().ranges(part.rows, Math.max(1, BAND / Math.max(1, width)), (first, end) -> {
            float[] tile = new float[width];
            float[] old = new float[accumulate ? width : 0];
            for (long j = first; j < end; j++) {
                long i = part.row + j;
                long at = i * n + part.column;
                from.read(j * part.stride, tile, 0, width);
                scale(tile, row[row.length == 1 ? 0 : (int) i], col, part.column);
                if (bias != null) {
                    add(tile, bias, part.column);
                }
                if (accumulate) {
                    c.read(at, old, 0, width);
                    add(tile, old, 0);
                }
                c.write(at, tile, 0, width);
            }
        });
    }

    private static void scale(float[] tile, float row, float[] col, int column) {
        if (col.length == 1) {
            float both = row * col[0];
            for (int j = 0; j < tile.length; j++) {
                tile[j] *= both;
            }
            return;
        }
        for (int j = 0; j < tile.length; j++) {
            tile[j] *= row * col[column + j];
        }
    }

    private static void add(float[] tile, float[] more, int from) {
        for (int j = 0; j < tile.length; j++) {
            tile[j] += more[from + j];
        }
    }
}
