package dev.octet.trainer.op.norm;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.norm.RowNormCuda.Passing;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The gradient of a normalisation with what stands around it in a transformer: before it the cast of its result's gradient from a narrower type, behind it the
 * sum with the residual stream's gradient, the sums with the gradients of the weight and the bias, and the cast of the stream's gradient for the branch before.
 * For a stream in F32 that saves two reads and a write of it.
 */
public final class RowNormGradientFusion implements CudaFusion {
    /** The steps of a match; those that are not there are null. */
    private record Match(
            @Nullable CudaCall widening,
            CudaCall norm,
            List<@Nullable CudaCall> sums,
            @Nullable CudaCall narrowing) {
        static @Nullable Match of(List<CudaCall> calls, int start) {
            int at = start;
            CudaCall widening = isCast(calls, at) ? calls.get(at++) : null;
            if (at >= calls.size() || !isNorm(calls.get(at))) {
                return null;
            }
            CudaCall norm = calls.get(at++);
            if (widening != null && !isOfResult(widening, norm)) {
                return null;
            }
            List<@Nullable CudaCall> sums = new ArrayList<>();
            sums.add(null);
            sums.add(null);
            sums.add(null);
            for (int i; (i = summed(calls, at, norm)) >= 0 && sums.get(i) == null; at++) {
                sums.set(i, calls.get(at));
            }
            CudaCall residual = sums.getFirst();
            CudaTensor dx = residual == null
                    ? norm.frame().gradient(0)
                    : residual.frame().output(0);
            CudaCall narrowing =
                    isCast(calls, at) && calls.get(at).frame().upstream(0).equals(dx) ? calls.get(at) : null;
            Match match = new Match(widening, norm, sums, narrowing);
            return match.length() > 1 ? match : null;
        }

        int length() {
            int length = 1 + (int) sums.stream().filter(s -> s != null).count();
            return length + (widening == null ? 0 : 1) + (narrowing == null ? 0 : 1);
        }
    }

    /** Of floats, written and not added. */
    private static boolean isCast(List<CudaCall> calls, int at) {
        if (at >= calls.size() || !calls.get(at).isBackward(Cast.class)) {
            return false;
        }
        Frame<CudaTensor> frame = calls.get(at).frame();
        return frame.hasUpstream(0)
                && frame.wantsGradient(0)
                && !frame.accumulates(0)
                && isFloat(frame.upstream(0).dtype())
                && isFloat(frame.gradient(0).dtype());
    }

    private static boolean isFloat(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    private static boolean isNorm(CudaCall call) {
        return call.isBackward(RowNorm.class)
                && call.op() instanceof RowNorm op
                && op.x().count() > 0
                && !RowNormCuda.isGradientTooLong(op)
                && call.frame().hasUpstream(0)
                && call.frame().wantsGradient(0);
    }

    /** Whether a cast makes the gradient of the norm's result, for nothing else, from a type that holds less. */
    private static boolean isOfResult(CudaCall cast, CudaCall norm) {
        CudaTensor dy = norm.frame().upstream(0);
        return cast.frame().gradient(0).equals(dy)
                && cast.gradientReaders().applyAsInt(0) == 1
                && dy.dtype() == DType.F32;
    }

    /** Which gradient of the norm the next step adds to another of the same type, the only one that reads it; -1 for none. */
    private static int summed(List<CudaCall> calls, int at, CudaCall norm) {
        if (at >= calls.size() || !calls.get(at).isForward(Accumulate.class)) {
            return -1;
        }
        Frame<CudaTensor> sum = calls.get(at).frame();
        for (int i = 0; i < 3; i++) {
            if (norm.frame().wantsGradient(i)
                    && norm.gradientReaders().applyAsInt(i) == 1
                    && sum.input(1).equals(norm.frame().gradient(i))
                    && sum.input(0).type().equals(sum.input(1).type())
                    && !sum.input(0).equals(sum.input(1))) {
                return i;
            }
        }
        return -1;
    }

    @Override
    public int length(List<CudaCall> calls, int at) {
        Match match = Match.of(calls, at);
        return match == null ? 0 : match.length();
    }

    private static Match matched(List<CudaCall> calls) {
        Match match = Match.of(calls, 0);
        if (match == null) {
            throw new IllegalStateException("steps that do not belong together");
        }
        return match;
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        Match match = matched(calls);
        Frame<CudaTensor> norm = match.norm().frame();
        CudaCall residual = match.sums().getFirst();
        CudaTensor dy = match.widening() == null
                ? norm.upstream(0)
                : match.widening().frame().upstream(0);
        Passing passing = new Passing(
                dy,
                before(residual),
                gradient(match, 0).address(),
                match.narrowing() == null ? null : match.narrowing().frame().gradient(0),
                before(match.sums().get(1)),
                norm.wantsGradient(1) ? gradient(match, 1) : null,
                before(match.sums().get(2)),
                norm.wantsGradient(2) ? gradient(match, 2) : null);
        new RowNormCuda.Backward((RowNorm) match.norm().op(), norm, passing, cuda).write();
    }

    private static long before(@Nullable CudaCall sum) {
        return sum == null ? 0 : sum.frame().input(0).address();
    }

    /** Where gradient {@code i} of the norm goes, or its sum. */
    private static CudaTensor gradient(Match match, int i) {
        CudaCall sum = match.sums().get(i);
        return sum == null ? match.norm().frame().gradient(i) : sum.frame().output(0);
    }

    @Override
    public void writeUnread(List<CudaCall> calls, CudaStream cuda) {
        Match match = matched(calls);
        CudaCall widening = match.widening();
        if (widening != null) {
            Cast.ENTRY.cuda().backward((Cast) widening.op(), widening.frame(), cuda);
        }
        CudaCall norm = match.norm();
        RowNorm.ENTRY.cuda().backward((RowNorm) norm.op(), norm.frame(), cuda);
    }
}
