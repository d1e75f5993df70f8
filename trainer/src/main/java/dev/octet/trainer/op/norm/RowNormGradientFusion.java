package dev.octet.trainer.op.norm;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.fp8.Fp8LinearCuda;
import dev.octet.trainer.op.norm.RowNormCuda.Coded;
import dev.octet.trainer.op.norm.RowNormCuda.Passing;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The gradient of a normalisation with what stands around it in a transformer: before it the cast of its result's gradient from a narrower type, behind it the
 * sum with the residual stream's gradient, the sums with the gradients of the weight and the bias, and the cast of the stream's gradient for the branch before.
 * For a stream in F32 that saves two reads and a write of it. Where a Linear in FP8 ends that branch, it takes codes, which are made in the same pass; the
 * narrower numbers are written only where something else reads them.
 */
public final class RowNormGradientFusion implements CudaFusion {
    /** The steps of a match; those that are not there are null. */
    private record Match(
            @Nullable CudaCall widening,
            CudaCall norm,
            List<@Nullable CudaCall> sums,
            @Nullable CudaCall narrowing,
            @Nullable CudaCall linear) {
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
                    isCast(calls, at) && calls.get(at).frame().upstream(0).equals(dx) ? calls.get(at++) : null;
            CudaTensor passed = narrowing == null ? dx : narrowing.frame().gradient(0);
            CudaCall linear =
                    at < calls.size() && isFloat(passed.dtype()) && Fp8LinearCuda.isDelayed(calls.get(at), passed)
                            ? calls.get(at)
                            : null;
            Match match = new Match(widening, norm, sums, narrowing, linear);
            return match.length() > 1 ? match : null;
        }

        int length() {
            int length = 1 + (int) sums.stream().filter(s -> s != null).count();
            return length + (widening == null ? 0 : 1) + (narrowing == null ? 0 : 1) + (linear == null ? 0 : 1);
        }

        /** Where the norm's kernel makes the codes that the Linear takes, its blocks; null where they are made of what it has written. */
        @Nullable
        Grid coding(CudaStream cuda) {
            if (linear == null || !Fp8LinearCuda.takesCodes((Fp8Linear) linear.op(), linear.frame(), cuda)) {
                return null;
            }
            RowNorm op = (RowNorm) norm.op();
            Fp8Linear of = (Fp8Linear) linear.op();
            return of.rows() == op.rows() && of.out() == op.size() ? RowNormCuda.turningGradients(op) : null;
        }

        /** Whether something takes the narrower numbers themselves. */
        boolean isNarrowRead(CudaStream cuda) {
            return linear == null
                    || coding(cuda) == null
                    || linear.upstreamReaders().applyAsInt(0) > 1
                    || Fp8LinearCuda.readsNumbers((Fp8Linear) linear.op(), linear.frame(), cuda);
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
        CudaCall linear = match.linear();
        Grid grid = match.coding(cuda);
        if (linear == null || grid == null) {
            write(match, null, cuda);
            if (linear != null) {
                Fp8Linear.ENTRY.cuda().backward((Fp8Linear) linear.op(), linear.frame(), cuda);
            }
            return;
        }
        Fp8LinearCuda.Maker maker =
                (format, to, sums) -> write(match, new Coded(linear.frame().upstream(0), grid, format, to, sums), cuda);
        Fp8LinearCuda.backward((Fp8Linear) linear.op(), linear.frame(), maker, cuda);
    }

    private static void write(Match match, @Nullable Coded coded, CudaStream cuda) {
        Frame<CudaTensor> norm = match.norm().frame();
        CudaTensor dy = match.widening() == null
                ? norm.upstream(0)
                : match.widening().frame().upstream(0);
        Passing passing = new Passing(
                dy,
                before(match.sums().getFirst()),
                gradient(match, 0).address(),
                match.narrowing() == null || !match.isNarrowRead(cuda)
                        ? null
                        : match.narrowing().frame().gradient(0),
                coded,
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
        CudaCall narrowing = match.narrowing();
        if (narrowing != null
                && !match.isNarrowRead(cuda)) { // by way of the norm's own gradient, which is made again below
            CudaTensor narrow = narrowing.frame().gradient(0);
            long dx = norm.frame().gradient(0).address();
            CudaTensor dy = widening == null
                    ? norm.frame().upstream(0)
                    : widening.frame().upstream(0);
            Passing passing = new Passing(dy, before(match.sums().getFirst()), dx, narrow, null, 0, null, 0, null);
            new RowNormCuda.Backward((RowNorm) norm.op(), norm.frame(), passing, cuda).write();
        }
        RowNorm.ENTRY.cuda().backward((RowNorm) norm.op(), norm.frame(), cuda);
    }
}
