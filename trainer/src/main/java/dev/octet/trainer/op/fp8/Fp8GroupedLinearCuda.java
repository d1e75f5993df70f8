package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaLaunch;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.experts.CudaGroups;
import dev.octet.trainer.op.experts.CudaGroups.Elements;
import dev.octet.trainer.op.experts.CudaGroups.Rows;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.IntToLongFunction;
import org.jspecify.annotations.Nullable;

/**
 * All experts in the same launches: rows are cast with the scales of their experts, and {@link CudaGroups} multiplies what codes stand for, or the codes as
 * BF16, which holds each of them, where one scale of each operand holds for each sum. Nothing goes back to the host.
 */
final class Fp8GroupedLinearCuda implements CudaKernel<Fp8GroupedLinear> {
    @Override
    public void forward(Fp8GroupedLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        Fp8Linear layer = op.layer();
        CudaTensor quantScales = frame.output(Fp8GroupedLinear.X_QUANT_SCALES);
        Experts experts = new Experts(op, frame, cuda);
        CudaTensor x = frame.input(Fp8GroupedLinear.X);
        if (op.hasDelayedInput()) { // also of experts without rows: backward finds all of them alike
            experts.copyMultipliers(quantScales);
        } else {
            cuda.zero(quantScales.address(), quantScales.byteSize());
        }
        if (op.records() > 0) {
            experts.recordInput(x);
        }
        ProductForm form = layer.fprop();
        experts.product(
                form,
                experts.rows(x, form.left(), e -> quantScales.address() + (long) e * Float.BYTES),
                experts.weights(form.right(), Fp8GroupedLinear.W_NARROW, Fp8GroupedLinear.W_CODES, layer.transB()),
                layer.hasBias() ? experts.biases() : null,
                frame.output(0),
                false);
    }

    @Override
    public void backward(Fp8GroupedLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
        Fp8Linear layer = op.layer();
        Experts experts = new Experts(op, frame, cuda);
        CudaTensor dy = frame.upstream(0);
        boolean wantsX = frame.wantsGradient(Fp8GroupedLinear.X);
        IntToLongFunction multiplier = e -> experts.address(e, Fp8GroupedLinear.DY_QUANT_SCALE);
        Rows up = null;
        if (wantsX) {
            ProductForm form = layer.dgrad();
            up = experts.rows(dy, form.left(), multiplier);
            int codes = layer.dgradHasOwnWeight() ? Fp8GroupedLinear.W_CODES_DGRAD : Fp8GroupedLinear.W_CODES;
            experts.product(
                    form,
                    up,
                    experts.weights(form.right(), Fp8GroupedLinear.W_NARROW, codes, !layer.transB()),
                    null,
                    frame.gradient(Fp8GroupedLinear.X),
                    frame.accumulates(Fp8GroupedLinear.X));
        }
        if (experts.wantsWeights()) {
            ProductForm form = layer.wgrad();
            Rows left = up != null && Objects.equals(form.left(), layer.dgrad().left())
                    ? up
                    : experts.rows(dy, form.left(), multiplier);
            CudaTensor quantScales = frame.output(Fp8GroupedLinear.X_QUANT_SCALES);
            Rows right = experts.rows(
                    frame.input(Fp8GroupedLinear.X), form.right(), e -> quantScales.address() + (long) e * Float.BYTES);
            experts.weightGradients(form, left, right);
        }
        if (layer.hasBias()) {
            experts.groups.biasGradients(dy, frame, e -> Fp8GroupedLinear.at(e, Fp8GroupedLinear.BIAS));
        }
        experts.recordGradient(dy);
    }

    /** What is written for the experts of a step. */
    private static final class Experts {
        private final Fp8GroupedLinear op;
        private final Frame<CudaTensor> frame;
        private final CudaStream cuda;
        private final CudaGroups groups;

        Experts(Fp8GroupedLinear op, Frame<CudaTensor> frame, CudaStream cuda) {
            this.op = op;
            this.frame = frame;
            this.cuda = cuda;
            this.groups = new CudaGroups(
                    frame.input(Fp8GroupedLinear.OFFSETS),
                    op.experts(),
                    op.layer().rows(),
                    cuda);
        }

        long address(int expert, int input) {
            return frame.input(Fp8GroupedLinear.at(expert, input)).address();
        }

        private long table(IntToLongFunction words) {
            long[] all = new long[op.experts()];
            for (int e = 0; e < all.length; e++) {
                all[e] = words.applyAsLong(e);
            }
            return cuda.table(all);
        }

        /** Keeps the multipliers that the rows of experts are cast with. */
        void copyMultipliers(CudaTensor to) {
            IntToLongFunction from = e -> address(e, Fp8GroupedLinear.X_QUANT_SCALE);
            multipliers(from, to.address(), cuda.workspace((long) op.experts() * Float.BYTES));
        }

        private void multipliers(IntToLongFunction from, long quantScales, long scales) {
            cuda.kernel(CudaCodes.SOURCE, "expert_multipliers", Grid.over(op.experts(), 32, 1))
                    .pointer("table", table(from))
                    .value("experts", op.experts())
                    .pointer("quant_scales", quantScales)
                    .pointer("scales", scales)
                    .launch();
        }

        /**
         * Rows as a product takes them.
         *
         * @param form null for the numbers themselves
         * @param multiplier address of an expert's, where it is known
         */
        Rows rows(CudaTensor x, @Nullable CodedMatrix form, IntToLongFunction multiplier) {
            if (form == null) {
                return Rows.of(x);
            }
            Blocks b = form.blocks();
            QuantScaleRule rule = form.rule();
            long count = rule == null ? op.experts() : groups.scaleRows(b.blockRows()) * b.gridCols();
            long quantScales = cuda.workspace(count * Float.BYTES);
            long scales = cuda.workspace(count * Float.BYTES);
            if (rule == null) {
                multipliers(multiplier, quantScales, scales);
            } else {
                long amax = amax(x, b, rule.seesNaN());
                CudaCodes.Scales of = new CudaCodes.Scales(count, amax, quantScales, scales, 0);
                CudaCodes.scales(form.format(), rule, x.dtype(), of, cuda);
            }
            long codes = cuda.workspace(b.elements());
            String types = x.suffix() + "_" + CudaSource.suffix(form.format().dtype());
            inBlocks("expert_codes_" + types, Grid.over(b.elements(), 256, 8), x, b)
                    .value("block_cols", b.blockCols())
                    .pointer("quant_scales", quantScales)
                    .pointer("codes", codes)
                    .launch();
            Elements elements = new Elements(form.format().dtype(), scales, b.blockRows(), b.blockCols());
            return new Rows(codes, Math.toIntExact(b.cols()), elements);
        }

        /** The launch of a kernel that goes through rows of experts block by block, with its first operands. */
        private CudaLaunch inBlocks(String kernel, Grid grid, CudaTensor x, Blocks b) {
            return cuda.kernel(CudaCodes.SOURCE, kernel, grid)
                    .pointer("x", x)
                    .pointer("offsets", groups.offsets())
                    .value("experts", op.experts())
                    .value("rows", b.rows())
                    .value("cols", b.cols())
                    .value("block_rows", b.blockRows());
        }

        /** Amaxes of the blocks of each expert's rows. */
        private long amax(CudaTensor x, Blocks b, boolean seesNaN) {
            long bytes = groups.scaleRows(b.blockRows()) * b.gridCols() * Float.BYTES;
            long amax = cuda.workspace(bytes);
            cuda.zero(amax, bytes);
            if (b.blockCols() == 1 && b.cols() > 1) {
                Grid grid = Grid.over(Math.ceilDiv(b.rows(), 64L) * b.cols(), 256, 1);
                inBlocks("expert_column_amax_" + x.suffix(), grid, x, b)
                        .pointer("amax", amax)
                        .flag("sees_nan", seesNaN)
                        .launch();
                return amax;
            }
            long items = Math.ceilDiv(b.rows(), 8L) * b.gridCols() * Math.ceilDiv(b.blockCols(), 256L);
            inBlocks("expert_amax_" + x.suffix(), Grid.over(items * 32, 256, 1), x, b)
                    .value("block_cols", b.blockCols())
                    .pointer("amax", amax)
                    .flag("sees_nan", seesNaN)
                    .launch();
            return amax;
        }

        /** Has the amax of each expert with rows at an address: raising the pending one of a history, or by itself. */
        private void record(CudaTensor x, IntToLongFunction to, boolean raises) {
            Blocks whole = CodedMatrix.whole(
                    op.layer().rows(), Math.toIntExact(x.shape().dim(-1)));
            cuda.kernel(CudaCodes.SOURCE, "expert_records", Grid.over(op.experts(), 32, 1))
                    .pointer("table", table(to))
                    .pointer("offsets", groups.offsets())
                    .pointer("amax", amax(x, whole, false))
                    .value("experts", op.experts())
                    .flag("raises", raises)
                    .launch();
        }

        void recordInput(CudaTensor x) {
            for (int e = 0; op.hasDelayedInput() && e < op.experts(); e++) {
                long from = address(e, Fp8GroupedLinear.X_HISTORY);
                CudaTensor to = frame.output(Fp8GroupedLinear.RECORDED + e);
                if (to.address() != from) {
                    cuda.copy(from, to.address(), to.byteSize());
                }
            }
            record(x, e -> frame.output(Fp8GroupedLinear.RECORDED + e).address(), op.hasDelayedInput());
        }

        void recordGradient(CudaTensor dy) {
            if (frame.hasInput(Fp8GroupedLinear.at(0, Fp8GroupedLinear.DY_HISTORY))) {
                record(dy, e -> address(e, Fp8GroupedLinear.DY_HISTORY), true);
            }
        }

        CudaGroups.Weights weights(@Nullable CodedMatrix form, int plain, int codes, boolean trans) {
            List<Long> words = new ArrayList<>();
            for (int e = 0; e < op.experts(); e++) {
                words.add(address(e, form == null ? plain : codes));
                words.add(form == null ? 0 : address(e, codes + 1));
            }
            if (form == null) {
                DType type = frame.input(Fp8GroupedLinear.at(0, plain)).dtype();
                return new CudaGroups.Weights(words, Elements.numbers(type), trans);
            }
            Blocks b = form.blocks();
            Elements elements = new Elements(form.format().dtype(), 0, b.blockRows(), b.blockCols());
            return new CudaGroups.Weights(words, elements, trans);
        }

        CudaGroups.Biases biases() {
            List<Long> words = new ArrayList<>();
            for (int e = 0; e < op.experts(); e++) {
                words.add(address(e, Fp8GroupedLinear.BIAS));
            }
            DType type =
                    frame.input(Fp8GroupedLinear.at(0, Fp8GroupedLinear.BIAS)).dtype();
            return new CudaGroups.Biases(words, type, op.layer().biasType());
        }

        void product(
                ProductForm form,
                Rows a,
                CudaGroups.Weights w,
                CudaGroups.@Nullable Biases biases,
                CudaTensor c,
                boolean accumulate) {
            boolean scalesSums = CudaScaledProduct.scalesSums(form, true, w.trans());
            groups.product(multiplied(form, a, scalesSums), scalesSums, a, w, biases, c, accumulate);
        }

        boolean wantsWeights() {
            boolean wants = false;
            for (int e = 0; e < op.experts(); e++) {
                wants |= frame.wantsGradient(Fp8GroupedLinear.at(e, Fp8GroupedLinear.W));
            }
            return wants;
        }

        void weightGradients(ProductForm form, Rows up, Rows x) {
            boolean scalesSums = CudaScaledProduct.scalesSums(form, false, false);
            boolean trans = op.layer().transB();
            groups.gradients(
                    multiplied(form, up, scalesSums),
                    scalesSums,
                    trans ? up : x,
                    trans ? x : up,
                    frame,
                    e -> Fp8GroupedLinear.at(e, Fp8GroupedLinear.W));
        }

        /** What is multiplied: a rule by all rows at once holds for those of each expert, too. */
        private static DType multiplied(ProductForm form, Rows left, boolean scalesSums) {
            return form.left() == null && form.right() == null
                    ? left.elements().type()
                    : scalesSums ? DType.BF16 : form.widened();
        }
    }
}
