package dev.octet.trainer.op.reduce;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/**
 * Along an innermost axis that is folded, the lanes of a warp read neighbours; else threads do, each for its own element. What few elements
 * are made of is cut into parts by shapes alone. LogSumExp and the gradient of extremes read x twice, like the CPU twin. F64 and wide
 * integers are computed in F64, other types in F32.
 */
public final class ReduceCuda implements CudaKernel<Reduce> {
    private static final CudaSource SOURCE = CudaSource.of(ReduceCuda.class, "reduce.cu");
    private static final int THREADS = 256;

    /** Threads that keep a large GPU busy. */
    private static final long BUSY = 1 << 18;

    /** Fewest terms a lane or a thread adds before another gets some. */
    private static final long LEAST_TERMS = 16;

    /** Kinds by the number that kernels know them by. */
    private static final List<Reduce.Kind> KINDS = List.of(
            Reduce.Kind.ReduceL1,
            Reduce.Kind.ReduceL2,
            Reduce.Kind.ReduceLogSum,
            Reduce.Kind.ReduceLogSumExp,
            Reduce.Kind.ReduceMax,
            Reduce.Kind.ReduceMean,
            Reduce.Kind.ReduceMin,
            Reduce.Kind.ReduceSum,
            Reduce.Kind.ReduceSumSquare);

    /** What is made of an element before it is joined; the numbers are the source's. */
    private enum Term {
        ITSELF(0),
        MAGNITUDE(1),
        SQUARE(2),
        EXPONENTIAL(3),
        EQUAL(4);

        private final int code;

        Term(int code) {
            this.code = code;
        }
    }

    private enum Join {
        SUM(0),
        LARGEST(1),
        SMALLEST(2);

        private final int code;

        Join(int code) {
            this.code = code;
        }
    }

    private enum Finish {
        NOTHING(0),
        ROOT(1),
        LOGARITHM(2),
        LOGARITHM_MORE(3),
        MEAN(4);

        private final int code;

        Finish(int code) {
            this.code = code;
        }
    }

    /** A pass over x. */
    private record Pass(Term term, Join join, Finish finish) {}

    /** Where numbers lie, one for each element of a result. */
    private record Numbers(DType type, long address) {
        static final Numbers NONE = new Numbers(DType.F32, 0);

        static Numbers of(CudaTensor t) {
            return new Numbers(t.dtype(), t.address());
        }

        int code() {
            return CudaSource.code(type);
        }
    }

    /** The sum of {@code from}'s elements over the axes along which operand 0 of {@code broadcast} is repeated, rounded to the type of {@code to}. */
    public static void sum(Broadcast broadcast, CudaTensor from, CudaTensor to, CudaStream cuda) {
        fold(
                broadcast,
                from,
                new Pass(Term.ITSELF, Join.SUM, Finish.NOTHING),
                Numbers.NONE,
                Numbers.of(to),
                to.count(),
                cuda);
    }

    @Override
    public void forward(Reduce op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor x = frame.input(0);
        Numbers y = Numbers.of(frame.output(0));
        long n = frame.output(0).count();
        Broadcast broadcast = op.broadcast();
        switch (op.kind()) {
            case ReduceL1 -> fold(broadcast, x, sum(Term.MAGNITUDE, Finish.NOTHING), Numbers.NONE, y, n, cuda);
            case ReduceL2 -> fold(broadcast, x, sum(Term.SQUARE, Finish.ROOT), Numbers.NONE, y, n, cuda);
            case ReduceLogSum -> fold(broadcast, x, sum(Term.ITSELF, Finish.LOGARITHM), Numbers.NONE, y, n, cuda);
            case ReduceMean -> fold(broadcast, x, sum(Term.ITSELF, Finish.MEAN), Numbers.NONE, y, n, cuda);
            case ReduceSum -> fold(broadcast, x, sum(Term.ITSELF, Finish.NOTHING), Numbers.NONE, y, n, cuda);
            case ReduceSumSquare -> fold(broadcast, x, sum(Term.SQUARE, Finish.NOTHING), Numbers.NONE, y, n, cuda);
            case ReduceMax -> fold(broadcast, x, extreme(Join.LARGEST), Numbers.NONE, y, n, cuda);
            case ReduceMin -> fold(broadcast, x, extreme(Join.SMALLEST), Numbers.NONE, y, n, cuda);
            case ReduceLogSumExp -> {
                Numbers largest = workspace(x, n, cuda);
                fold(broadcast, x, extreme(Join.LARGEST), Numbers.NONE, largest, n, cuda);
                fold(broadcast, x, sum(Term.EXPONENTIAL, Finish.LOGARITHM_MORE), largest, y, n, cuda);
            }
        }
    }

    private static Pass sum(Term term, Finish finish) {
        return new Pass(term, Join.SUM, finish);
    }

    private static Pass extreme(Join join) {
        return new Pass(Term.ITSELF, join, Finish.NOTHING);
    }

    /** Numbers of the type that kernels compute with. */
    private static Numbers workspace(CudaTensor x, long count, CudaStream cuda) {
        DType type = isTyped(x.dtype()) ? DType.F32 : DType.F64;
        return new Numbers(type, cuda.workspace(count * type.bits() / 8));
    }

    private static boolean isTyped(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    /** One pass over x: {@code y[k]} is made of the elements that {@code broadcast} repeats it to, with {@code other[k]} where terms need one. */
    private static void fold(
            Broadcast broadcast, CudaTensor x, Pass pass, Numbers other, Numbers y, long count, CudaStream cuda) {
        Axes kept = Axes.of(broadcast, false, cuda);
        Axes folded = Axes.of(broadcast, true, cuda);
        boolean byWarps = folded.isInnermost() && folded.count() >= 32;
        long lanes = byWarps ? 32 : 1;
        long splits = Math.max(
                1, Math.min(Math.ceilDiv(folded.count(), lanes * LEAST_TERMS), BUSY / (Math.max(1, count) * lanes)));
        long chunk = Math.ceilDiv(Math.ceilDiv(folded.count(), splits), 8L) * 8;
        splits = Math.max(1, Math.ceilDiv(folded.count(), chunk == 0 ? 1 : chunk));
        boolean typed = isTyped(x.dtype());
        long parts = splits == 1 ? 0 : workspace(x, count * splits, cuda).address();
        cuda.kernel(
                        SOURCE,
                        (byWarps ? "reduce_warps_" : "reduce_threads_") + (typed ? x.suffix() : "any"),
                        Grid.over(count * splits * lanes, THREADS, 1))
                .typed("type", "x", x)
                .value("term", pass.term().code)
                .value("join", pass.join().code)
                .value("finish", pass.finish().code)
                .value("type_other", other.code())
                .pointer("other", other.address())
                .pointer("parts", parts)
                .value("type_y", y.code())
                .pointer("y", y.address())
                .value("elements", count)
                .value("repetitions", folded.count())
                .value("splits", splits)
                .value("chunk", chunk)
                .value("terms", folded.count())
                .flag("packed", kept.inPacks() && folded.isRun())
                .value("kept_rank", kept.rank())
                .pointer("kept", kept.table())
                .value("folded_rank", folded.rank())
                .pointer("folded", folded.table())
                .launch();
        if (splits > 1) {
            cuda.kernel(
                            SOURCE,
                            typed ? "reduce_splits_single" : "reduce_splits_double",
                            Grid.over(count * 32, THREADS, 1))
                    .value("term", pass.term().code)
                    .value("join", pass.join().code)
                    .value("finish", pass.finish().code)
                    .value("type_other", other.code())
                    .pointer("other", other.address())
                    .pointer("parts", parts)
                    .value("type_y", y.code())
                    .pointer("y", y.address())
                    .value("elements", count)
                    .value("repetitions", folded.count())
                    .value("splits", splits)
                    .value("chunk", chunk)
                    .value("terms", folded.count())
                    .launch();
        }
    }

    /**
     * Those axes of x along which the result is repeated, or the others; the table has their lengths, then their steps in x.
     *
     * @param isInnermost whether the innermost axis of x is among them
     * @param inPacks whether lengths of runs and steps are multiples of eight
     * @param isRun whether they are one axis of neighbours, a multiple of eight long
     */
    private record Axes(int rank, long count, long table, boolean isInnermost, boolean inPacks, boolean isRun) {
        static Axes of(Broadcast broadcast, boolean repeated, CudaStream cuda) {
            long[] lengths = broadcast.lengths();
            long[] steps = new long[lengths.length];
            long step = 1;
            for (int d = lengths.length - 1; d >= 0; d--) {
                steps[d] = step;
                step *= lengths[d];
            }
            int[] chosen = IntStream.range(0, lengths.length)
                    .filter(d -> isRepeated(broadcast, d) == repeated)
                    .toArray();
            long[] own = IntStream.of(chosen).mapToLong(d -> lengths[d]).toArray();
            long[] ownSteps = IntStream.of(chosen).mapToLong(d -> steps[d]).toArray();
            boolean innermost = chosen.length > 0 && chosen[chosen.length - 1] == lengths.length - 1;
            return new Axes(
                    chosen.length,
                    LongStream.of(own).reduce(1, (a, b) -> a * b),
                    cuda.table(LongStream.concat(LongStream.of(own), LongStream.of(ownSteps))
                            .toArray()),
                    innermost,
                    LongStream.of(ownSteps).allMatch(s -> s % 8 == 0),
                    innermost && chosen.length == 1 && own[0] % 8 == 0);
        }

        /** An axis of length 1, which is left where there is no other, is kept. */
        private static boolean isRepeated(Broadcast broadcast, int d) {
            return broadcast.steps(0)[d] == 0 && broadcast.lengths()[d] != 1;
        }
    }

    @Override
    public void backward(Reduce op, Frame<CudaTensor> frame, CudaStream cuda) {
        Broadcast broadcast = op.broadcast();
        CudaTensor dx = frame.gradient(0);
        CudaTensor g = frame.upstream(0);
        boolean extreme = op.kind() == Reduce.Kind.ReduceMax || op.kind() == Reduce.Kind.ReduceMin;
        long equal = 0;
        if (extreme) {
            Numbers count = workspace(dx, g.count(), cuda);
            fold(
                    broadcast,
                    frame.input(0),
                    sum(Term.EQUAL, Finish.NOTHING),
                    Numbers.of(frame.output(0)),
                    count,
                    g.count(),
                    cuda);
            equal = count.address();
        }
        boolean typed = isTyped(dx.dtype());
        cuda.kernel(
                        SOURCE,
                        "reduce_backward_" + (typed ? dx.suffix() : "any"),
                        Grid.over(dx.count(), THREADS, typed ? 8 : 1))
                .value("kind", KINDS.indexOf(op.kind()))
                .value("type", CudaSource.code(dx.dtype()))
                .pointer("g", g)
                .pointer("x", op.backwardReadsInput(0) ? frame.input(0).address() : 0L)
                .pointer("y", op.backwardReadsOutput(0) ? frame.output(0).address() : 0L)
                .pointer("equal", equal)
                .pointer("dx", dx)
                .value("n", dx.count())
                .value("terms", op.terms())
                .value("rank", broadcast.lengths().length)
                .pointer(
                        "axes",
                        cuda.table(
                                LongStream.concat(LongStream.of(broadcast.lengths()), LongStream.of(broadcast.steps(0)))
                                        .toArray()))
                .launch();
    }
}
