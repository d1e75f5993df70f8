package dev.octet.trainer.op.rotary;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaCall;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.op.cast.Cast;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Rotary embeddings of queries and keys with the casts around them: of narrow numbers to F32, which angles are applied in, and of the result for attention; backward the other way
 * round. For BF16 that is two bytes read and two written for each element instead of ten and ten.
 */
public final class RotaryFusion implements CudaFusion {
    /**
     * One of the embeddings.
     *
     * @param before the cast of what it reads; null for none
     * @param after the cast of what it makes; null for none
     */
    private record Turn(
            @Nullable CudaCall before,
            CudaCall rotary,
            @Nullable CudaCall after) {
        CudaTensor x() {
            Frame<CudaTensor> frame = before == null ? rotary.frame() : before.frame();
            return rotary.backward() ? frame.upstream(0) : frame.input(0);
        }

        CudaTensor y() {
            return result(after == null ? rotary : after);
        }

        int length() {
            return 1 + (before == null ? 0 : 1) + (after == null ? 0 : 1);
        }
    }

    private static CudaTensor result(CudaCall call) {
        return call.backward() ? call.frame().gradient(0) : call.frame().output(0);
    }

    private static boolean reads(CudaCall call, CudaTensor x) {
        Frame<CudaTensor> frame = call.frame();
        return call.backward()
                ? frame.hasUpstream(0) && frame.upstream(0).equals(x)
                : frame.input(0).equals(x);
    }

    /** Whether a step alone reads what this one makes. */
    private static boolean isFor(CudaCall call, CudaCall reader) {
        int readers = call.backward()
                ? call.gradientReaders().applyAsInt(0)
                : call.readers().applyAsInt(0);
        return readers == 1 && reads(reader, result(call));
    }

    private static @Nullable CudaCall get(List<CudaCall> calls, int at, Class<?> op, boolean backward) {
        if (at >= calls.size()) {
            return null;
        }
        CudaCall call = calls.get(at);
        if (!op.isInstance(call.op()) || call.backward() != backward) {
            return null;
        }
        Frame<CudaTensor> frame = call.frame();
        if (backward && (!frame.hasUpstream(0) || !frame.wantsGradient(0) || frame.accumulates(0))) {
            return null;
        }
        boolean floats = isFloat(result(call).dtype())
                && isFloat((backward ? frame.upstream(0) : frame.input(0)).dtype())
                && result(call).count() > 0;
        return floats ? call : null;
    }

    private static boolean isFloat(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    /** The embeddings that begin at a call; none where they have no casts. */
    private static List<Turn> of(List<CudaCall> calls, int at) {
        List<Turn> turns = calls.get(at).backward() ? backward(calls, at) : forward(calls, at);
        return length(turns) > turns.size() ? turns : List.of();
    }

    private static int length(List<Turn> turns) {
        return turns.stream().mapToInt(Turn::length).sum();
    }

    /** Each after its cast, then the casts of the results. */
    private static List<Turn> forward(List<CudaCall> calls, int start) {
        List<Turn> turns = new ArrayList<>();
        int at = start;
        while (true) {
            CudaCall before = get(calls, at, Cast.class, false);
            CudaCall rotary = get(calls, before == null ? at : at + 1, RotaryEmbedding.class, false);
            if (rotary == null || (before != null && !isFor(before, rotary))) {
                break;
            }
            turns.add(new Turn(before, rotary, null));
            at += before == null ? 1 : 2;
        }
        for (int i = 0; i < turns.size(); i++, at++) {
            CudaCall after = get(calls, at, Cast.class, false);
            int of = after == null ? -1 : maker(turns, after);
            if (after == null || of < 0) {
                return List.of();
            }
            turns.set(of, new Turn(turns.get(of).before(), turns.get(of).rotary(), after));
        }
        return turns;
    }

    private static int maker(List<Turn> turns, CudaCall cast) {
        for (int i = 0; i < turns.size(); i++) {
            if (isFor(turns.get(i).rotary(), cast)) {
                return i;
            }
        }
        return -1;
    }

    /** The casts of what attention gives, then each with its cast. */
    private static List<Turn> backward(List<CudaCall> calls, int start) {
        List<CudaCall> casts = new ArrayList<>();
        int at = start;
        for (CudaCall cast; (cast = get(calls, at, Cast.class, true)) != null; at++) {
            casts.add(cast);
        }
        List<Turn> turns = new ArrayList<>();
        while (!casts.isEmpty()) {
            CudaCall rotary = get(calls, at, RotaryEmbedding.class, true);
            CudaCall before = rotary == null
                    ? null
                    : casts.stream().filter(c -> isFor(c, rotary)).findFirst().orElse(null);
            if (rotary == null || before == null) {
                return List.of();
            }
            casts.remove(before);
            CudaCall after = get(calls, at + 1, Cast.class, true);
            after = after != null && isFor(rotary, after) ? after : null;
            turns.add(new Turn(before, rotary, after));
            at += after == null ? 1 : 2;
        }
        return turns;
    }

    @Override
    public int length(List<CudaCall> calls, int at) {
        return length(of(calls, at));
    }

    @Override
    public void write(List<CudaCall> calls, CudaStream cuda) {
        for (Turn turn : of(calls, 0)) {
            CudaCall rotary = turn.rotary();
            float direction = rotary.backward() ? -1 : 1;
            RotaryEmbeddingCuda.turn(
                    (RotaryEmbedding) rotary.op(), rotary.frame(), turn.x(), turn.y(), direction, cuda);
        }
    }

    @Override
    public void writeUnread(List<CudaCall> calls, CudaStream cuda) {
        for (Turn turn : of(calls, 0)) {
            CudaCall before = turn.before();
            if (before != null && before.backward()) {
                Cast.ENTRY.cuda().backward((Cast) before.op(), before.frame(), cuda);
            } else if (before != null) {
                Cast.ENTRY.cuda().forward((Cast) before.op(), before.frame(), cuda);
            }
            CudaCall rotary = turn.rotary();
            RotaryEmbedding op = (RotaryEmbedding) rotary.op();
            if (turn.after() != null && rotary.backward()) {
                RotaryEmbedding.ENTRY.cuda().backward(op, rotary.frame(), cuda);
            } else if (turn.after() != null) {
                RotaryEmbedding.ENTRY.cuda().forward(op, rotary.frame(), cuda);
            }
        }
    }
}
