package dev.octet.trainer.op.norm;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaLaunch;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.op.binary.Binary;
import dev.octet.trainer.op.binary.BinaryFunction;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.fp8.CudaCodes;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.op.fp8.QuantizeFp8DelayedCuda;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A normalisation with what stands around it in a transformer: before it the sum of the residual stream and a branch, which may be cast to the
 * stream's type, behind it the cast of its result, to FP8 or to a narrower float type. The row is read once; the normalised numbers are
 * written only where something else reads them.
 */
public final class RowNormFusion implements CudaFusion {
    /** The steps of a match, in their order; those that are not there are null. */
    private record Match(
            @Nullable CudaCall widening,
            @Nullable CudaCall sum,
            CudaCall norm,
            @Nullable CudaCall quantizer,
            @Nullable CudaCall narrowing) {
        static @Nullable Match of(List<CudaCall> calls, int start) {
            Cursor at = new Cursor(calls, start);
            CudaCall widening = at.take(Cast.class, null);
            CudaCall sum = at.take(
                    Binary.class, widening == null ? null : widening.frame().output(0));
            if (widening != null && (sum == null || !isOnlyReader(widening))) {
                return null;
            }
            CudaCall norm =
                    at.take(RowNorm.class, sum == null ? null : sum.frame().output(0));
            if (norm == null || (sum != null && !isResidual(sum, norm))) {
                return null;
            }
            CudaTensor y = norm.frame().output(0);
            CudaCall quantizer = at.take(QuantizeFp8Delayed.class, y);
            CudaCall narrowing = quantizer == null && y.dtype() == DType.F32 ? at.take(Cast.class, y) : null;
            if (narrowing != null
                    && !(isOnlyReader(norm)
                            && isNarrowFloat(narrowing.frame().output(0).dtype()))) {
                narrowing = null;
            }
            boolean fits =
                    !RowNormCuda.isTooLong((RowNorm) norm.op()) && norm.op() instanceof RowNorm n && n.x().count() > 0;
            Match match = new Match(widening, sum, norm, quantizer, narrowing);
            return fits && match.length() > 1 ? match : null;
        }

        private static boolean isOnlyReader(CudaCall call) {
            return call.readers().applyAsInt(0) == 1;
        }

        /** Operands of the norm's shape, the result of the norm's type. */
        private static boolean isResidual(CudaCall sum, CudaCall norm) {
            CudaTensor y = sum.frame().output(0);
            return y.equals(norm.frame().input(0))
                    && sum.frame().input(0).shape().equals(y.shape())
                    && sum.frame().input(1).shape().equals(y.shape())
                    && isNarrowFloat(y.dtype())
                    && isNarrowFloat(sum.frame().input(0).dtype())
                    && isNarrowFloat(sum.frame().input(1).dtype());
        }

        int length() {
            int length = 1;
            for (CudaCall call : new @Nullable CudaCall[] {widening, sum, quantizer, narrowing}) {
                length += call == null ? 0 : 1;
            }
            return length;
        }

        /** Whether something beside the cast reads the normalised numbers. */
        boolean isRead() {
            return norm.readers().applyAsInt(0) > 1;
        }

        /** Operand {@code i} of the sum; a cast one as it was before. */
        CudaTensor addend(int i, CudaCall from) {
            CudaTensor operand = from.frame().input(i);
            return widening != null && widening.frame().output(0).equals(operand)
                    ? widening.frame().input(0)
                    : operand;
        }
    }

    private static boolean isNarrowFloat(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    /** Goes from step to step while they fit. */
    private static final class Cursor {
        private final List<CudaCall> calls;
        private int at;

        Cursor(List<CudaCall> calls, int at) {
            this.calls = calls;
            this.at = at;
        }

        /** The next step when it is the forward half of such an operator and reads this; null otherwise. */
        @Nullable
        CudaCall take(Class<? extends Op> type, @Nullable CudaTensor reads) {
            if (at >= calls.size() || !calls.get(at).isForward(type)) {
                return null;
            }
            CudaCall call = calls.get(at);
            if (call.op() instanceof Binary b && b.function() != BinaryFunction.Add) {
                return null;
            }
            Frame<CudaTensor> frame = call.frame();
            boolean fits = reads == null
                    || frame.input(0).equals(reads)
                    || (call.op() instanceof Binary && frame.input(1).equals(reads));
            if (!fits
                    || (call.op() instanceof Cast
                            && !isNarrowFloat(frame.input(0).dtype()))) {
                return null;
            }
            at++;
            return call;
        }
    }

    @Override
    public int length(List<CudaCall> calls, int at) {
        Match match = Match.of(calls, at);
        return match == null ? 0 : match.length();
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        Match match = Match.of(calls, 0);
        if (match == null) {
            throw new IllegalStateException("steps that do not belong together");
        }
        RowNorm op = (RowNorm) match.norm().op();
        Frame<CudaTensor> norm = match.norm().frame();
        CudaCall sum = match.sum();
        CudaTensor x = norm.input(0);
        CudaTensor first = sum == null ? x : match.addend(0, sum);
        CudaTensor second = sum == null ? x : match.addend(1, sum);
        CudaTensor y = match.narrowing() == null
                ? norm.output(0)
                : match.narrowing().frame().output(0);
        CudaCall quantizer = match.quantizer();
        boolean isRead = quantizer == null || match.isRead();
        CudaTensor w = norm.input(1);
        boolean biased = norm.hasInput(2);
        QuantizeFp8Delayed cast = quantizer == null ? null : (QuantizeFp8Delayed) quantizer.op();
        CudaSource source = RowNormCuda.source(
                        op, y.dtype(), w.dtype(), biased ? norm.input(2).dtype() : w.dtype())
                .define("FIRST_TYPE", CudaSource.type(first.dtype()))
                .define("SECOND_TYPE", CudaSource.type(second.dtype()))
                .define(
                        "CODE_TYPE",
                        cast == null ? "e4m3" : CudaSource.suffix(cast.format().dtype()));
        long transposed = quantizer == null ? 0 : cuda.wanted(quantizer.frame().output(0), CudaCodes.TRANSPOSED);
        Grid turning = transposed == 0 ? null : RowNormCuda.turning(op);
        CudaLaunch launch = cuda.kernel(
                        source,
                        turning == null ? "norm_forward_fused" : "norm_forward_transposed",
                        turning == null ? RowNormCuda.grid(op) : turning)
                .pointer("first", first)
                .pointer("second", sum == null ? 0L : second.address())
                .pointer("x", x)
                .pointer("w", w)
                .pointer("b", biased ? norm.input(2).address() : 0L)
                .pointer("y", isRead ? y.address() : 0L)
                .pointer("means", op.centred() ? norm.output(1).address() : 0L)
                .pointer("deviations", norm.output(op.deviationOutput()))
                .value("rows", (long) op.rows())
                .value("size", op.size())
                .value("epsilon", op.epsilon())
                .pointer(
                        "codes",
                        quantizer == null ? 0L : quantizer.frame().output(0).address())
                .pointer(
                        "quant_scale",
                        quantizer == null ? 0L : quantizer.frame().input(1).address())
                .pointer(
                        "scale",
                        quantizer == null ? 0L : quantizer.frame().output(1).address())
                .pointer(
                        "amax",
                        quantizer == null || cast == null
                                ? 0L
                                : QuantizeFp8DelayedCuda.history(cast, quantizer.frame(), cuda));
        if (turning != null) {
            launch.pointer("transposed", transposed).value("leading", CudaCodes.leading(op.rows()));
        }
        launch.launch();
        if (transposed != 0 && turning == null) {
            CudaTensor codes = requireNonNull(quantizer).frame().output(0);
            CudaCodes.transpose(codes.address(), op.rows(), op.size(), transposed, cuda);
        }
    }

    @Override
    public void writeUnread(List<CudaCall> calls, CudaStream cuda) {
        Match match = Match.of(calls, 0);
        if (match == null || (match.widening() == null && match.narrowing() == null && match.isRead())) {
            return;
        }
        CudaCall widening = match.widening();
        if (widening != null) {
            Cast.ENTRY.cuda().forward((Cast) widening.op(), widening.frame(), cuda);
        }
        CudaCall sum = match.sum();
        if (sum != null) {
            Binary.ENTRY.cuda().forward((Binary) sum.op(), sum.frame(), cuda);
        }
        CudaCall norm = match.norm();
        RowNorm.ENTRY.cuda().forward((RowNorm) norm.op(), norm.frame(), cuda);
    }
}
