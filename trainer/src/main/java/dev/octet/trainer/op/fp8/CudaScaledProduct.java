package dev.octet.trainer.op.fp8;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaProduct.ScaleMode;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.ManyTensorsKernel;
import dev.octet.trainer.op.product.CudaLengths;
import dev.octet.trainer.op.product.CudaProducts;
import dev.octet.trainer.op.product.CudaSums;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One product of operands in codes or not, as a {@link ProductForm} says.
 *
 * <p>Codes are multiplied as they are where the GPU and its library can: with one scale for each operand the library applies both, with one for each vector of
 * both, too, where it can (cuBLAS 12.9 on Hopper); otherwise they are applied to the F32 sums afterwards. Scales of blocks of 128, of which one operand at most has
 * squares, are the library's alone, as they are applied to parts of sums. Codes that the library does not take (lengths that are not multiples of 16,
 * two E5M2 operands, a GPU without FP8, a shape for which the library has no algorithm) are widened to BF16, which holds each of them, and give the same sums up to their order.
 */
final class CudaScaledProduct {
    /** First compute capability with FP8 tensor cores. */
    private static final int FP8 = 89;

    /** The compute capability on which the library applies scales of blocks. */
    private static final int HOPPER = 90;

    /** What FP8 operands' lengths are multiples of: bytes, and one code is a byte. */
    private static final int MULTIPLE = CudaProduct.ALIGNMENT;

    /** Elements of a row that a block rounds, as in fp8.cu. */
    private static final long ROUNDED = 1024;

    private final ProductForm form;
    private final CudaStream cuda;
    private final CudaProducts products;

    /** Rows, columns, and length of the sums. */
    record Size(int m, int n, int k) {}

    /**
     * An operand.
     *
     * @param elements codes, one a byte, or numbers of {@code type}
     * @param coded what codes mean; null for numbers
     * @param scales address of the codes' scales
     * @param transposed address of the codes' transpose, when it is there; 0 otherwise
     * @param pitch codes from one row to the next
     */
    record Operand(long elements, DType type, @Nullable CodedMatrix coded, long scales, long transposed, long pitch) {
        static Operand plain(CudaTensor t) {
            return new Operand(t.address(), t.dtype(), null, 0, 0, 0);
        }

        static Operand coded(long codes, CodedMatrix coded, long scales, long transposed) {
            return coded(codes, coded, scales, transposed, coded.blocks().cols());
        }

        static Operand coded(long codes, CodedMatrix coded, long scales, long transposed, long pitch) {
            return new Operand(codes, coded.format().dtype(), coded, scales, transposed, pitch);
        }

        Operand scaledAt(long other) {
            return new Operand(elements, type, coded, other, transposed, pitch);
        }

        /** Whether rows of codes are padded with zeros to a multiple that products take. */
        boolean isPadded() {
            return coded != null && pitch != coded.blocks().cols();
        }
    }

    CudaScaledProduct(ProductForm form, CudaStream cuda) {
        this(form, cuda, new CudaProducts(cuda));
    }

    /** With products of the same step. */
    CudaScaledProduct(ProductForm form, CudaStream cuda, CudaProducts products) {
        this.form = form;
        this.cuda = cuda;
        this.products = products;
    }

    /**
     * Whether rows of the left codes are to be padded for a product whose right codes lie transposed, and padded already: where only the length of the sums
     * keeps it from FP8 units, and it is large.
     */
    boolean padsLeft(Size size, DType result) {
        Size padded = new Size(size.m(), size.n(), Math.toIntExact(CudaCodes.leading(size.k())));
        return size.k() % MULTIPLE != 0
                && isOneScale(form)
                && isFp8(form, true, false, padded, result, cuda.capability())
                && products.pays(flops(size), 0);
    }

    private static boolean isOneScale(ProductForm form) {
        return form.left() != null
                && form.right() != null
                && form.left().blocks().scaleCount() == 1
                && form.right().blocks().scaleCount() == 1;
    }

    private static double flops(Size size) {
        return 2.0 * size.m() * size.n() * size.k();
    }

    /** Whether the product is computed on codes by FP8 tensor cores. */
    static boolean isFp8(
            ProductForm form, boolean leftAlongCols, boolean rightAlongCols, Size size, DType result, int capability) {
        CodedMatrix left = form.left();
        CodedMatrix right = form.right();
        if (!scalesSums(form, leftAlongCols, rightAlongCols) || left == null || right == null || capability < FP8) {
            return false;
        }
        boolean bothTransposed = !leftAlongCols && !rightAlongCols; // then the length of the sums is padded
        boolean vectors = left.blocks().scaleCount() > 1 || right.blocks().scaleCount() > 1;
        int bytes = vectors ? Float.BYTES : result.bits() / 8;
        return hasFp8Formats(left, right)
                && size.m() > 0
                && size.k() > 0
                && (bothTransposed || size.k() % MULTIPLE == 0)
                && size.n() * bytes % MULTIPLE == 0;
    }

    /** As {@link #isFp8}, where scales belong to blocks that the library applies itself. */
    private static boolean isFp8OfBlocks(
            ProductForm form, boolean leftAlongCols, boolean rightAlongCols, Size size, DType result, int capability) {
        return capability == HOPPER
                && scaleMode(form, leftAlongCols, rightAlongCols).isOfBlocks()
                && size.m() > 0
                && size.n() > 0
                && size.k() > 0
                && size.m() % 4 == 0
                && ((!leftAlongCols && !rightAlongCols) || size.k() % MULTIPLE == 0)
                && size.n() * (result.bits() / 8) % MULTIPLE == 0;
    }

    /** What scales of blocks belong to, as the library takes them; {@link ScaleMode#ONE} where it does not. */
    private static ScaleMode scaleMode(ProductForm form, boolean leftAlongCols, boolean rightAlongCols) {
        CodedMatrix left = form.left();
        CodedMatrix right = form.right();
        if (!form.onCodes() || left == null || right == null || !hasFp8Formats(left, right)) {
            return ScaleMode.ONE;
        }
        boolean leftRuns = left.hasScalePerRun(leftAlongCols);
        boolean rightRuns = right.hasScalePerRun(rightAlongCols);
        if (leftRuns && rightRuns) {
            return ScaleMode.PER_RUN;
        } else if (leftRuns && right.hasScalePerSquare()) {
            return ScaleMode.PER_RUN_AND_SQUARE;
        } else if (rightRuns && left.hasScalePerSquare()) {
            return ScaleMode.PER_SQUARE_AND_RUN;
        }
        return ScaleMode.ONE;
    }

    /**
     * Whether the product is computed on codes by FP8 tensor cores; where scales are of blocks, whether the library has an algorithm, too, so that nobody makes
     * transposes in vain.
     */
    static boolean multipliesCodes(
            ProductForm form, boolean leftAlongCols, boolean rightAlongCols, Size size, DType result, CudaStream cuda) {
        return isFp8(form, leftAlongCols, rightAlongCols, size, result, cuda.capability())
                || (isFp8OfBlocks(form, leftAlongCols, rightAlongCols, size, result, cuda.capability())
                        && cuda.computes(sample(form, leftAlongCols, rightAlongCols, size, result)));
    }

    /** A product without a bias at addresses that are aligned. */
    private static CudaProduct sample(
            ProductForm form, boolean leftAlongCols, boolean rightAlongCols, Size size, DType result) {
        int k = leftAlongCols || rightAlongCols ? size.k() : Math.toIntExact(CudaCodes.leading(size.k()));
        ScaleMode mode = scaleMode(form, leftAlongCols, rightAlongCols);
        return CudaProduct.of(
                        false,
                        true,
                        size.m(),
                        size.n(),
                        k,
                        Matrix.of(MULTIPLE, requireNonNull(form.left()).format().dtype(), k),
                        Matrix.of(
                                MULTIPLE, requireNonNull(form.right()).format().dtype(), k),
                        Matrix.of(MULTIPLE, result, size.n()))
                .scaled(mode, MULTIPLE, MULTIPLE, false);
    }

    private static boolean hasFp8Formats(CodedMatrix left, CodedMatrix right) {
        return isCodes(left)
                && isCodes(right)
                && (left.format() == Float8Format.E4M3FN || right.format() == Float8Format.E4M3FN);
    }

    private static boolean isCodes(CodedMatrix matrix) {
        return matrix.format() == Float8Format.E4M3FN || matrix.format() == Float8Format.E5M2;
    }

    /** Whether one scale holds for each sum. */
    static boolean scalesSums(ProductForm form, boolean leftAlongCols, boolean rightAlongCols) {
        return form.onCodes()
                && form.left() != null
                && form.right() != null
                && form.left().hasScalePerVector(leftAlongCols)
                && form.right().hasScalePerVector(rightAlongCols);
    }

    /**
     * d = op(a)·op(b), scaled, plus bias, or that added to d.
     *
     * @param transposeA a lies as [k, m]
     * @param transposeB b lies as [n, k]
     * @param bias F32 [n], rounded to {@code biasType} before it is added; null for none
     * @param fast whether an FP8 unit may add up in reduced precision
     */
    record Task(
            boolean transposeA,
            boolean transposeB,
            Size size,
            Operand a,
            Operand b,
            @Nullable CudaTensor bias,
            DType biasType,
            CudaTensor d,
            boolean accumulate,
            boolean fast) {
        /** This task with scales that lie elsewhere. */
        Task scaledAt(long ofA, long ofB) {
            return new Task(
                    transposeA,
                    transposeB,
                    size,
                    a.scaledAt(ofA),
                    b.scaledAt(ofB),
                    bias,
                    biasType,
                    d,
                    accumulate,
                    fast);
        }
    }

    /** Writes a product. */
    void write(Task task) {
        Size size = task.size();
        if (size.m() == 0 || size.n() == 0) {
            return;
        }
        Size aligned = task.a().isPadded()
                ? new Size(size.m(), size.n(), Math.toIntExact(task.a().pitch()))
                : size;
        boolean units = isFp8(
                        form,
                        !task.transposeA(),
                        task.transposeB(),
                        aligned,
                        task.d().dtype(),
                        cuda.capability())
                || isFp8OfBlocks(
                        form,
                        !task.transposeA(),
                        task.transposeB(),
                        size,
                        task.d().dtype(),
                        cuda.capability());
        if (units
                && cuda.computes(
                        product(task, way(task), size.n(), size.n(), MULTIPLE, MULTIPLE, MULTIPLE, MULTIPLE))) {
            onCodes(task, way(task));
        } else if (padsColumns(task)) {
            onPaddedColumns(task);
        } else {
            widened(task);
        }
    }

    /** Who applies scales and a bias. */
    private enum Way {
        /** The library, with one scale for each operand. */
        DIRECT,
        /** The library, with one for each vector of both. */
        PER_VECTOR,
        /** A kernel behind the sums in F32. */
        SUMS,
        /** The library, with scales of blocks. */
        BLOCKS,
        /** The library the scales of blocks, a kernel behind the sums in F32 the bias. */
        BLOCKS_TO_SUMS;

        /** Whether the product is the result. */
        boolean isDirect() {
            return this != SUMS && this != BLOCKS_TO_SUMS;
        }
    }

    private void onCodes(Task task, Way way) {
        Size size = task.size();
        CudaTensor bias = task.bias();
        long left = contiguous(task.a(), task.transposeA());
        long right = contiguous(task.b(), !task.transposeB());
        boolean direct = way.isDirect();
        long sums = direct ? task.d().address() : cuda.workspace((long) size.m() * size.n() * Float.BYTES);
        long row = bias != null && direct ? narrowed(bias, task.biasType()) : 0;
        boolean blocks = way == Way.BLOCKS || way == Way.BLOCKS_TO_SUMS;
        Task placed = blocks
                ? task.scaledAt(
                        arranged(task.a(), !task.transposeA(), size.k()),
                        arranged(task.b(), task.transposeB(), size.k()))
                : task;
        products.write(product(placed, way, size.n(), size.n(), left, right, sums, row));
        if (!direct) {
            finish(task, Matrix.of(sums, DType.F32, size.n()), !blocks);
        }
    }

    /** Scales of blocks where they lie as the library takes them, those of a column of blocks one behind the other ({@link ScaleMode}). */
    private long arranged(Operand operand, boolean alongCols, int k) {
        Blocks b = blocks(operand);
        boolean runs = coded(operand).hasScalePerRun(alongCols);
        long pitch = runs ? (alongCols ? b.rows() : b.cols()) : ScaleMode.squarePitch(k);
        boolean turned = runs == alongCols; // runs lie across the sums, squares along them
        if (!turned && pitch == b.gridCols()) {
            return operand.scales();
        }
        long rows = turned ? b.gridCols() : b.gridRows();
        long to = cuda.workspace(rows * pitch * Float.BYTES);
        CudaCodes.arrangeScales(operand.scales(), b, turned, to, pitch, cuda);
        return to;
    }

    /** Columns of a product that are multiples of what FP8 units take. */
    private static int columns(Task task) {
        return Math.toIntExact(CudaCodes.leading(task.size().n()));
    }

    /**
     * Elements from row to row with which a result [m, n] of contiguous operands, without a bias, needs no copy; 0 where it needs none.
     *
     * @param result its type
     */
    static long rowPitch(ProductForm form, Size size, DType result, CudaStream cuda) {
        Size padded = new Size(size.m(), Math.toIntExact(CudaCodes.leading(size.n())), size.k());
        boolean pads = size.n() % MULTIPLE != 0
                && isOneScale(form)
                && isFp8(form, true, true, padded, result, cuda.capability())
                && new CudaProducts(cuda).pays(flops(size), 2L * size.m() * size.n() * result.bits() / 8);
        return pads ? padded.n() : 0;
    }

    /** Whether only the number of its columns keeps a product from FP8 units, and it gains by a result with more, of which those that are there are copied. */
    private boolean padsColumns(Task task) {
        Size size = task.size();
        Size padded = new Size(size.m(), columns(task), size.k());
        long copied = 2L * size.m() * size.n() * task.d().dtype().bits() / 8;
        return size.n() % MULTIPLE != 0
                && !task.transposeA()
                && task.transposeB()
                && task.bias() == null
                && !task.accumulate()
                && isOneScale(form)
                && isFp8(form, true, true, padded, task.d().dtype(), cuda.capability())
                && products.pays(flops(size), copied)
                && cuda.computes(product(task, Way.DIRECT, padded.n(), padded.n(), MULTIPLE, MULTIPLE, MULTIPLE, 0));
    }

    private void onPaddedColumns(Task task) {
        Size size = task.size();
        int n = columns(task);
        long there = (long) size.n() * size.k();
        long right = cuda.workspace((long) n * size.k());
        cuda.copy(task.b().elements(), right, there);
        cuda.zero(right + there, (long) n * size.k() - there);
        CudaTensor d = task.d();
        if (d.pitch() >= n) { // it has room behind its rows
            products.write(product(task, Way.DIRECT, n, d.pitch(), task.a().elements(), right, d.address(), 0));
            return;
        }
        DType type = d.dtype();
        Matrix result = Matrix.of(cuda.workspace((long) size.m() * n * type.bits() / 8), type, n);
        products.write(product(task, Way.DIRECT, n, n, task.a().elements(), right, result.address(), 0));
        products.copy(result, Matrix.of(d.address(), type, size.n()), new CudaLengths.Sides(size.m(), size.n()));
    }

    /** Whether the library writes the result itself: with scales that it applies, and a bias that it can add. */
    private Way way(Task task) {
        // the library adds a bias of BF16, or of F16 to results in F16
        DType addable = task.d().dtype() == DType.F16 ? DType.F16 : DType.BF16;
        boolean added = task.bias() == null || task.biasType() == addable;
        if (!scalesSums(form, !task.transposeA(), task.transposeB())) {
            return added ? Way.BLOCKS : Way.BLOCKS_TO_SUMS;
        }
        if (!added) {
            return Way.SUMS;
        }
        boolean left = blocks(task.a()).scaleCount() > 1;
        boolean right = blocks(task.b()).scaleCount() > 1;
        if (!left && !right) {
            return Way.DIRECT;
        }
        int n = task.size().n();
        return left
                        && right
                        && n * task.d().dtype().bits() / 8 % MULTIPLE == 0
                        && cuda.computes(product(task, Way.PER_VECTOR, n, n, MULTIPLE, MULTIPLE, MULTIPLE, MULTIPLE))
                ? Way.PER_VECTOR
                : Way.SUMS;
    }

    /**
     * The product of codes that lie at these addresses, with the result's or the sums', of n columns, and the narrow bias's, if it has one.
     *
     * @param pitch elements from one row of the result to the next
     */
    private CudaProduct product(Task task, Way way, int n, long pitch, long left, long right, long result, long bias) {
        Size size = task.size();
        boolean direct = way.isDirect();
        boolean padded = task.a().isPadded() || (task.transposeA() && !task.transposeB());
        int k = padded ? Math.toIntExact(CudaCodes.leading(size.k())) : size.k();
        CudaProduct product = CudaProduct.of(
                        false,
                        true,
                        size.m(),
                        n,
                        k,
                        Matrix.of(left, task.a().type(), k),
                        Matrix.of(right, task.b().type(), k),
                        Matrix.of(result, direct ? task.d().dtype() : DType.F32, pitch))
                .accumulating(direct && task.accumulate());
        product = switch (way) {
            case DIRECT -> product.scaled(task.a().scales(), task.b().scales(), task.fast());
            case PER_VECTOR ->
                product.scaled(ScaleMode.PER_VECTOR, task.a().scales(), task.b().scales(), task.fast());
            case SUMS -> product.scaled(0, 0, task.fast());
            case BLOCKS, BLOCKS_TO_SUMS ->
                product.scaled(
                        scaleMode(form, !task.transposeA(), task.transposeB()),
                        task.a().scales(),
                        task.b().scales(),
                        false);
        };
        return task.bias() != null && direct ? product.withBias(bias, task.biasType()) : product;
    }

    private static Blocks blocks(Operand operand) {
        return coded(operand).blocks();
    }

    private static CodedMatrix coded(Operand operand) {
        CodedMatrix coded = operand.coded();
        if (coded == null) {
            throw new IllegalStateException("an operand without codes");
        }
        return coded;
    }

    /** Codes that lie along the sums: as they are, or their transpose, which is made here where nobody made it before. */
    private long contiguous(Operand operand, boolean transpose) {
        if (!transpose) {
            return operand.elements();
        }
        if (operand.transposed() != 0) {
            return operand.transposed();
        }
        Blocks b = blocks(operand);
        long to = cuda.workspace(CudaCodes.transposedBytes(b.rows(), b.cols()));
        CudaCodes.transpose(operand.elements(), b.rows(), b.cols(), to, cuda);
        return to;
    }

    private long narrowed(CudaTensor bias, DType type) {
        return cuda.ahead(
                new ManyTensorsKernel(CudaCodes.SOURCE, "round_rows", ROUNDED, List.of(CudaSource.code(type))),
                bias,
                "rounded to " + type,
                bias.count() * 2,
                bias.address(),
                bias.count());
    }

    private void widened(Task task) {
        Size size = task.size();
        CudaTensor d = task.d();
        boolean scalesSums = scalesSums(form, !task.transposeA(), task.transposeB());
        DType type = task.a().coded() == null && task.b().coded() == null
                ? task.a().type()
                : scalesSums ? DType.BF16 : form.widened();
        boolean bare = !scalesSums && task.bias() == null;
        boolean direct = bare && (d.dtype() == DType.F32 || d.dtype() == type);
        CudaProduct product = CudaProduct.of(
                        task.transposeA(),
                        task.transposeB(),
                        size.m(),
                        size.n(),
                        size.k(),
                        natural(task.a(), type, task.transposeA() ? size.m() : size.k()),
                        natural(task.b(), type, task.transposeB() ? size.k() : size.n()),
                        direct ? Matrix.of(d.address(), d.dtype(), d.pitch()) : Matrix.of(0, DType.F32, size.n()))
                .accumulating(direct && task.accumulate());
        CudaLengths own = new CudaLengths(size.m(), size.n(), size.k());
        CudaLengths to = products.lengths(product);
        Matrix left = widened(task.a(), product.a(), own.a(product), to.a(product), scalesSums);
        Matrix right = widened(task.b(), product.b(), own.b(product), to.b(product), scalesSums);
        if (direct && !to.equals(own)) {
            products.write(product, to, left, right);
            return;
        }
        if (direct) {
            products.write(CudaProduct.of(
                            task.transposeA(),
                            task.transposeB(),
                            size.m(),
                            size.n(),
                            size.k(),
                            left,
                            right,
                            product.d())
                    .accumulating(task.accumulate()));
            return;
        }
        CudaLengths.Sides sides = to.d();
        Matrix sums = Matrix.of(cuda.workspace(sides.elements() * Float.BYTES), DType.F32, sides.leading());
        products.write(CudaProduct.of(task.transposeA(), task.transposeB(), to.m(), to.n(), to.k(), left, right, sums));
        finish(task, sums, scalesSums);
    }

    /** An operand as it lies, or as numbers that are yet to be made of it. */
    private static Matrix natural(Operand operand, DType type, int columns) {
        return operand.coded() == null
                ? Matrix.of(operand.elements(), operand.type(), columns)
                : Matrix.of(0, type, columns);
    }

    /** Numbers: the codes alone where the scales go to the sums, otherwise what they stand for. */
    private Matrix widened(
            Operand operand, Matrix as, CudaLengths.Sides own, CudaLengths.Sides to, boolean scalesSums) {
        CodedMatrix coded = operand.coded();
        if (coded == null) {
            return own.equals(to) ? as : products.operand(as, own, to);
        }
        long bytes = to.elements() * as.type().bits() / 8;
        Matrix numbers = Matrix.of(cuda.workspace(bytes), as.type(), to.leading());
        CudaCodes.decodeRows(
                operand.elements(), operand.pitch(), coded, scalesSums ? 0 : operand.scales(), numbers, to, cuda);
        return numbers;
    }

    /** Scales, where the operands' are yet to be applied, bias and what is there already. */
    private void finish(Task task, Matrix sums, boolean scales) {
        Size size = task.size();
        CudaTensor d = task.d();
        CudaSums.Scales factors = scales
                ? new CudaSums.Scales(
                        task.a().scales(),
                        blocks(task.a()).scaleCount(),
                        task.b().scales(),
                        blocks(task.b()).scaleCount())
                : CudaSums.Scales.NONE;
        new CudaSums(sums, new CudaLengths.Sides(size.m(), size.n()), 1)
                .finish(
                        factors,
                        task.bias(),
                        task.biasType(),
                        Matrix.of(d.address(), d.dtype(), d.pitch()),
                        task.accumulate(),
                        cuda);
    }
}
