package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.fp8.CudaScaledProduct.Operand;
import dev.octet.trainer.op.fp8.CudaScaledProduct.Size;
import dev.octet.trainer.op.fp8.CudaScaledProduct.Task;
import dev.octet.trainer.op.product.CudaRows;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Three products of codes. Hopper and Ada multiply codes only where both operands lie along the sums, so dgrad takes the weight's transpose and wgrad
 * those of x and of the gradient: those of x and w are made where their codes are, that of the gradient with its own.
 */
public final class Fp8LinearCuda implements CudaKernel<Fp8Linear> {
    @Override
    public void forward(Fp8Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
        ProductForm form = op.fprop();
        Size size = new Size(op.rows(), op.out(), op.in());
        boolean fp8 = CudaScaledProduct.multipliesCodes(
                form, true, op.transB(), size, op.y().dtype(), cuda);
        Operand x = input(form.left(), frame, Fp8Linear.X, Fp8Linear.X_CODES, false, cuda);
        Operand w = input(form.right(), frame, Fp8Linear.W_NARROW, Fp8Linear.W_CODES, fp8 && !op.transB(), cuda);
        new CudaScaledProduct(form, cuda)
                .write(new Task(
                        false,
                        op.transB(),
                        size,
                        x,
                        w,
                        op.hasBias() ? frame.input(Fp8Linear.BIAS) : null,
                        op.biasType(),
                        frame.output(0),
                        false,
                        true));
    }

    /** Those of a head whose vocabulary is no multiple of 16, and which makes codes of the scores' gradient with the gradient itself. */
    @Override
    public long rowPitch(Fp8Linear op, CudaStream cuda) {
        Size size = new Size(op.rows(), op.out(), op.in());
        return op.hasBias() || !op.transB() || !GeluGradientFusion.isDelayed(op)
                ? 0
                : CudaScaledProduct.rowPitch(op.fprop(), size, op.y().dtype(), cuda);
    }

    @Override
    public void backward(Fp8Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
        backward(op, frame, new Gradient(op, frame, cuda), cuda);
    }

    /**
     * Backward where dy is yet to be made by an operator, in the same launch as its codes; they have delayed scales.
     *
     * @param operator begins the names of the kernels that make both
     * @param operands those kernels' first arguments
     */
    static void backward(
            Fp8Linear op, Frame<CudaTensor> frame, String operator, List<Object> operands, CudaStream cuda) {
        Gradient gradient = new Gradient(op, frame, cuda);
        gradient.make(operator, operands);
        backward(op, frame, gradient, cuda);
    }

    /** Makes dy's codes and their transpose. */
    public interface Maker {
        /**
         * Writes the launch.
         *
         * @param format of the codes
         * @param sums where sums of dy's rows go, as a cast makes them, F32 [{@link CudaCodes#sumRows}, columns]; 0 for nowhere
         */
        void make(Float8Format format, CudaCodes.Cast to, long sums);
    }

    /** The same where something else than a cast makes the codes, which {@link #takesCodes}. */
    public static void backward(Fp8Linear op, Frame<CudaTensor> frame, Maker maker, CudaStream cuda) {
        Gradient gradient = new Gradient(op, frame, cuda);
        CodedMatrix form = first(op);
        gradient.place(form);
        maker.make(form.format(), gradient.cast(), gradient.sums);
        backward(op, frame, gradient, cuda);
    }

    /** Whether this is the backward half of a Linear that casts dy with a scale of earlier steps. */
    public static boolean isDelayed(CudaCall call, CudaTensor dy) {
        return call.isBackward(Fp8Linear.class)
                && call.frame().upstream(0).equals(dy)
                && GeluGradientFusion.isDelayed((Fp8Linear) call.op());
    }

    /** Whether backward takes codes of dy that lie one row behind the other, and their transpose. */
    public static boolean takesCodes(Fp8Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
        return makesTranspose(op, frame, cuda) && !padsGradient(op, frame, cuda);
    }

    /**
     * Backward of Linears one behind the other, whose dy are yet to be made by an operator, all of them and their codes in one launch; they have delayed scales and
     * the same shape, and {@link #makesTranspose}.
     *
     * @param linears in the order of the steps
     * @param order numbers of them in the order in which the kernel has their codes
     */
    static void backward(
            List<CudaCall> linears, List<Integer> order, String operator, List<Object> operands, CudaStream cuda) {
        List<Gradient> gradients = linears.stream()
                .map(c -> new Gradient((Fp8Linear) c.op(), c.frame(), cuda))
                .toList();
        List<CudaCodes> matrices = new ArrayList<>();
        List<CudaCodes.Cast> casts = new ArrayList<>();
        for (int i : order) {
            Fp8Linear op = (Fp8Linear) linears.get(i).op();
            matrices.add(gradients.get(i).place(first(op)));
            casts.add(gradients.get(i).cast());
        }
        CudaCodes.cast(operator, operands, matrices, casts, cuda);
        for (int i = 0; i < linears.size(); i++) {
            backward((Fp8Linear) linears.get(i).op(), linears.get(i).frame(), gradients.get(i), cuda);
        }
    }

    private static void backward(Fp8Linear op, Frame<CudaTensor> frame, Gradient gradient, CudaStream cuda) {
        CudaTensor dy = frame.upstream(0);
        if (frame.wantsGradient(Fp8Linear.X)) {
            ProductForm form = op.dgrad();
            Size size = new Size(op.rows(), op.in(), op.out());
            CudaTensor dx = frame.gradient(Fp8Linear.X);
            boolean fp8 = CudaScaledProduct.multipliesCodes(form, true, !op.transB(), size, dx.dtype(), cuda)
                    || padsGradient(op, frame, cuda);
            int codes = op.dgradHasOwnWeight() ? Fp8Linear.W_CODES_DGRAD : Fp8Linear.W_CODES;
            Operand w = input(form.right(), frame, Fp8Linear.W_NARROW, codes, fp8 && op.transB(), cuda);
            new CudaScaledProduct(form, cuda)
                    .write(new Task(
                            false,
                            !op.transB(),
                            size,
                            gradient.operand(form),
                            w,
                            null,
                            DType.F32,
                            dx,
                            frame.accumulates(Fp8Linear.X),
                            false));
        }
        if (frame.wantsGradient(Fp8Linear.W)) {
            weightGradient(op, frame, gradient, cuda);
        }
        if (op.hasBias() && frame.wantsGradient(Fp8Linear.BIAS)) {
            CudaTensor db = frame.gradient(Fp8Linear.BIAS);
            boolean accumulate = frame.accumulates(Fp8Linear.BIAS);
            if (gradient.sums == 0) {
                CudaRows.sum(dy, db, op.rows(), op.out(), accumulate, cuda);
            } else {
                CudaRows.join(gradient.sums, gradient.groups, op.out(), db, accumulate, cuda);
            }
        }
        gradient.record();
    }

    /**
     * Whether backward reads dy itself, not only the codes that it makes of it first, with the sums of their rows.
     */
    public static boolean readsNumbers(Fp8Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
        boolean wantsX = frame.wantsGradient(Fp8Linear.X);
        boolean wantsW = frame.wantsGradient(Fp8Linear.W);
        CodedMatrix first =
                op.dgrad().left() != null ? op.dgrad().left() : op.wgrad().left();
        if (first == null
                || (wantsX && !first.equals(op.dgrad().left()))
                || (wantsW && !first.equals(op.wgrad().left()))) {
            return true;
        }
        boolean wantsBias = op.hasBias() && frame.wantsGradient(Fp8Linear.BIAS);
        return wantsBias && !makesTranspose(op, first, frame, cuda);
    }

    /** Whether rows of dy's codes are padded, so that dgrad is computed on them. */
    private static boolean padsGradient(Fp8Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
        CodedMatrix form = op.dgrad().left();
        return op.transB()
                && form != null
                && frame.wantsGradient(Fp8Linear.X)
                && makesTranspose(op, form, frame, cuda)
                && new CudaScaledProduct(op.dgrad(), cuda)
                        .padsLeft(
                                new Size(op.rows(), op.in(), op.out()),
                                frame.gradient(Fp8Linear.X).dtype());
    }

    /** Whether the codes that backward makes first are made with their transpose. */
    static boolean makesTranspose(Fp8Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
        return makesTranspose(op, first(op), frame, cuda);
    }

    /** What backward casts first. */
    static CodedMatrix first(Fp8Linear op) {
        return Objects.requireNonNull(
                op.dgrad().left() != null ? op.dgrad().left() : op.wgrad().left());
    }

    /** Whether codes of dy are made with their transpose. */
    private static boolean makesTranspose(Fp8Linear op, CodedMatrix form, Frame<CudaTensor> frame, CudaStream cuda) {
        return form.equals(op.wgrad().left())
                && frame.wantsGradient(Fp8Linear.W)
                && frame.upstream(0).count() > 0
                && isFp8Weight(op, frame.gradient(Fp8Linear.W).dtype(), cuda);
    }

    private static Size weightSize(Fp8Linear op) {
        return op.transB() ? new Size(op.out(), op.in(), op.rows()) : new Size(op.in(), op.out(), op.rows());
    }

    private static boolean isFp8Weight(Fp8Linear op, DType result, CudaStream cuda) {
        return CudaScaledProduct.multipliesCodes(op.wgrad(), false, false, weightSize(op), result, cuda);
    }

    private static void weightGradient(Fp8Linear op, Frame<CudaTensor> frame, Gradient gradient, CudaStream cuda) {
        ProductForm form = op.wgrad();
        CudaTensor dw = frame.gradient(Fp8Linear.W);
        boolean fp8 = isFp8Weight(op, dw.dtype(), cuda);
        int codes = op.wgradHasOwnInput() ? Fp8Linear.X_CODES_WGRAD : Fp8Linear.X_CODES;
        Operand x = input(form.right(), frame, Fp8Linear.X, codes, fp8, cuda);
        Operand up = gradient.operand(form);
        new CudaScaledProduct(form, cuda)
                .write(new Task(
                        true,
                        false,
                        weightSize(op),
                        op.transB() ? up : x,
                        op.transB() ? x : up,
                        null,
                        DType.F32,
                        dw,
                        frame.accumulates(Fp8Linear.W),
                        false));
    }

    /**
     * x or w as a product takes it.
     *
     * @param transposed whether the product takes the transpose of its codes, which the step that makes them then makes, too
     */
    private static Operand input(
            @Nullable CodedMatrix form,
            Frame<CudaTensor> frame,
            int plain,
            int codes,
            boolean transposed,
            CudaStream cuda) {
        if (form == null) {
            return Operand.plain(frame.input(plain));
        }
        CudaTensor made = frame.input(codes);
        Blocks b = form.blocks();
        long other = transposed
                ? cuda.derived(made, CudaCodes.TRANSPOSED, CudaCodes.transposedBytes(b.rows(), b.cols()))
                : 0;
        return Operand.coded(made.address(), form, frame.input(codes + 1).address(), other);
    }

    /** dy, quantised when first asked for, and again only when asked for in another form. */
    private static final class Gradient {
        private final Fp8Linear op;
        private final CudaTensor dy;
        private final Frame<CudaTensor> frame;
        private final CudaStream cuda;
        private @Nullable CodedMatrix form;
        private @Nullable Operand operand;

        /** What wgrad takes where one pass makes both. */
        private @Nullable Operand other;

        private String operator = "cast";
        private List<Object> operands;
        private boolean recorded;

        /** Where sums of groups of dy's rows lie, once a cast has made them; 0 before. */
        private long sums;

        private long groups;

        Gradient(Fp8Linear op, Frame<CudaTensor> frame, CudaStream cuda) {
            this.op = op;
            this.dy = frame.upstream(0);
            this.frame = frame;
            this.cuda = cuda;
            this.operands = List.of(dy);
        }

        /** Has dy made with its first codes, before any product. */
        void make(String by, List<Object> from) {
            operator = by;
            operands = from;
            operand(op.dgrad().left() != null ? op.dgrad() : op.wgrad());
            operator = "cast";
            operands = List.of(dy);
        }

        Operand operand(ProductForm productForm) {
            CodedMatrix wanted = productForm.left();
            if (wanted == null) {
                return Operand.plain(dy);
            }
            if (isPair()) {
                if (operand == null) {
                    castPair();
                }
                return Objects.requireNonNull(wanted.equals(form) ? operand : other);
            }
            if (operand == null || !wanted.equals(form)) {
                quantize(wanted);
            }
            return Objects.requireNonNull(operand);
        }

        /** Whether both products take codes of runs of 128, which one pass makes. */
        private boolean isPair() {
            CodedMatrix rows = op.dgrad().left();
            CodedMatrix columns = op.wgrad().left();
            return rows != null
                    && columns != null
                    && frame.wantsGradient(Fp8Linear.X)
                    && CudaCodes.isPair(rows, columns)
                    && makesTranspose(op, columns, frame, cuda);
        }

        /** Codes for both products, and sums for the bias. */
        private void castPair() {
            CodedMatrix rows = Objects.requireNonNull(op.dgrad().left());
            CodedMatrix columns = Objects.requireNonNull(op.wgrad().left());
            long codes = cuda.workspace((long) op.rows() * op.out());
            long scales = cuda.workspace(rows.blocks().scaleCount() * Float.BYTES);
            long transposed = cuda.workspace(CudaCodes.transposedBytes(op.rows(), op.out()));
            long columnScales = cuda.workspace(columns.blocks().scaleCount() * Float.BYTES);
            if (op.hasBias() && frame.wantsGradient(Fp8Linear.BIAS)) {
                groups = CudaCodes.runSums(op.rows());
                sums = cuda.workspace(frame.gradient(Fp8Linear.BIAS), groups * op.out() * Float.BYTES);
            }
            form = rows;
            operand = Operand.coded(codes, rows, scales, 0);
            other = Operand.coded(0, columns, columnScales, transposed);
            new CudaCodes(dy, rows, cuda)
                    .castRuns(
                            (TransformerEngineScale) Objects.requireNonNull(rows.rule()),
                            new CudaCodes.Runs(codes, scales, transposed, columnScales, sums, 0));
        }

        /** Takes room for codes, and for sums of groups of rows where a cast makes them; they are there once the cast is written. */
        CudaCodes place(CodedMatrix wanted) {
            boolean padded = wanted.equals(op.dgrad().left()) && padsGradient(op, frame, cuda);
            long pitch = padded ? CudaCodes.leading(op.out()) : op.out();
            long codes = cuda.workspace(op.rows() * pitch);
            long scales = cuda.workspace(wanted.blocks().scaleCount() * Float.BYTES);
            boolean weights = makesTranspose(op, wanted, frame, cuda);
            long transposed = weights ? cuda.workspace(CudaCodes.transposedBytes(op.rows(), op.out())) : 0;
            CudaCodes matrix = new CudaCodes(dy, wanted, cuda);
            matrix = padded ? matrix.padded() : matrix;
            if (weights && wanted.blocks().scaleCount() == 1 && op.hasBias() && frame.wantsGradient(Fp8Linear.BIAS)) {
                CudaTensor db = frame.gradient(Fp8Linear.BIAS);
                groups = CudaCodes.sumRows(op.rows());
                sums = cuda.workspace(db, groups * op.out() * Float.BYTES);
                matrix = matrix.summing(sums);
            }
            operand = Operand.coded(codes, wanted, scales, transposed, pitch);
            form = wanted;
            return matrix;
        }

        /** The cast to the room that was taken, with the scale of earlier steps. */
        CudaCodes.Cast cast() {
            Operand to = Objects.requireNonNull(operand);
            long history = recorded ? 0 : history();
            recorded = true;
            long quantScale = frame.input(Fp8Linear.DY_QUANT_SCALE).address();
            return new CudaCodes.Cast(to.elements(), to.transposed(), quantScale, to.scales(), history);
        }

        private void quantize(CodedMatrix wanted) {
            CudaCodes matrix = place(wanted);
            Operand to = Objects.requireNonNull(operand);
            QuantScaleRule rule = wanted.rule();
            if (rule instanceof WindowedScale windowed) {
                long quantScale = frame.input(Fp8Linear.DY_QUANT_SCALE).address();
                WindowUpdate.Slot slot = new WindowUpdate.Slot(wanted.format(), windowed);
                CudaWindow.inPlace(slot, quantScale, history()).cast(matrix, cuda);
                matrix.cast(to.elements(), to.transposed(), quantScale, to.scales(), 0);
                recorded = true;
            } else if (rule != null) {
                matrix.encode(to.elements(), to.transposed(), matrix.quantScales(rule, to.scales(), 0));
            } else {
                matrix.cast(operator, operands, cast());
            }
        }

        private long history() {
            return frame.hasInput(Fp8Linear.DY_HISTORY)
                    ? frame.input(Fp8Linear.DY_HISTORY).address()
                    : 0;
        }

        /** Delayed scaling: the amax that a later step's scale comes from, when no cast has found it on its way. */
        void record() {
            if (!recorded && history() != 0) {
                Blocks whole = CodedMatrix.whole(op.rows(), op.out());
                CodedMatrix any = new CodedMatrix(Float8Format.E5M2, whole, null);
                new CudaCodes(dy, any, cuda).amax(history(), false);
            }
        }
    }
}
