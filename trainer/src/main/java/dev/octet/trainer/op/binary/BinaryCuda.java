package dev.octet.trainer.op.binary;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/**
 * Eight elements a thread where both operands have the result's type and shape or are broadcast in it, one by one in F64 where types differ.
 * Gradients of repeated operands are summed in two stages, in an order that depends on shapes alone.
 */
public final class BinaryCuda implements CudaKernel<Binary> {
    /** The kernels, with all rows of {@link BinaryFunction} in them. */
    public static final CudaSource SOURCE =
            CudaSource.of(BinaryCuda.class, "binary.cu").including(functions());

    /** Threads that sum repetitions together. */
    private static final long THREADS = 1 << 16;

    /** {@code value}, {@code gradient_a} and {@code gradient_b} of every function, by the number of its row. */
    private static String functions() {
        StringBuilder values = new StringBuilder();
        List<StringBuilder> gradients = List.of(new StringBuilder(), new StringBuilder());
        for (BinaryFunction f : BinaryFunction.values()) {
            values.append(row(f, f.value().cuda()));
            for (int i = 0; i < 2; i++) {
                if (f.gradient(i).exists()) {
                    gradients.get(i).append(row(f, f.gradient(i).cuda()));
                }
            }
        }
        return """
            template <typename R> DEVICE R value(int function, R a, R b) {
                switch (function) {
            %s    default: return a;
                }
            }
            DEVICE float gradient_a(int function, float g, float a, float b, float constant) {
                switch (function) {
            %s    default: return g;
                }
            }
            DEVICE float gradient_b(int function, float g, float a, float b) {
                switch (function) {
            %s    default: return g;
                }
            }
            """.formatted(values, gradients.getFirst(), gradients.getLast());
    }

    private static String row(BinaryFunction f, String expression) {
        return "    case %d: return %s; // %s\n".formatted(f.cudaCase(), expression, f);
    }

    private static boolean isOneNarrowFloat(CudaTensor... tensors) {
        DType type = tensors[0].dtype();
        for (CudaTensor t : tensors) {
            if (t.dtype() != type) {
                return false;
            }
        }
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    @Override
    public void forward(Binary op, Frame<CudaTensor> frame, CudaStream cuda) {
        CudaTensor a = frame.input(0);
        CudaTensor b = frame.input(1);
        CudaTensor y = frame.output(0);
        Broadcast broadcast = Broadcast.of(y.shape(), a.shape(), b.shape());
        long n = y.count();
        int rank = broadcast.lengths().length;
        if (!isOneNarrowFloat(a, b, y)) {
            cuda.kernel(SOURCE, "binary_forward_any", Grid.over(n, 256, 1))
                    .value("function", op.function().cudaCase())
                    .typed("type_a", "a", a)
                    .typed("type_b", "b", b)
                    .typed("type_y", "y", y)
                    .value("n", n)
                    .value("rank", rank)
                    .pointer("axes", allAxes(broadcast, cuda))
                    .launch();
        } else if (broadcast.isWhole(0) && broadcast.isWhole(1)) {
            cuda.launch(
                    SOURCE,
                    "binary_forward_" + y.suffix(),
                    Grid.over(n, 256, 8),
                    op.function().cudaCase(),
                    a,
                    b,
                    y,
                    n);
        } else {
            cuda.launch(
                    SOURCE,
                    "binary_spread_" + y.suffix(),
                    Grid.over(n, 256, 8),
                    op.function().cudaCase(),
                    a,
                    b,
                    y,
                    n,
                    rank,
                    allAxes(broadcast, cuda));
        }
    }

    private static long allAxes(Broadcast broadcast, CudaStream cuda) {
        return cuda.table(join(broadcast.lengths(), broadcast.steps(0), broadcast.steps(1)));
    }

    private static long[] join(long[]... parts) {
        return LongStream.concat(
                        LongStream.of(parts[0]),
                        LongStream.concat(
                                LongStream.of(parts[1]),
                                LongStream.concat(
                                        LongStream.of(parts[2]),
                                        parts.length > 3 ? LongStream.of(parts[3]) : LongStream.empty())))
                .toArray();
    }

    @Override
    public void backward(Binary op, Frame<CudaTensor> frame, CudaStream cuda) {
        Gradients gradients = new Gradients(op, frame, cuda);
        if (gradients.areOneTypeAndWhole()) {
            gradients.together();
            return;
        }
        for (int k = 0; k < 2; k++) {
            if (frame.wantsGradient(k)) {
                gradients.of(k);
            }
        }
    }

    /** What is wanted of one step. */
    private static final class Gradients {
        private final Binary op;
        private final Frame<CudaTensor> frame;
        private final CudaStream cuda;
        private final CudaTensor dy;
        private final Broadcast broadcast;
        private final float exponent;

        Gradients(Binary op, Frame<CudaTensor> frame, CudaStream cuda) {
            this.op = op;
            this.frame = frame;
            this.cuda = cuda;
            this.dy = frame.upstream(0);
            Pair p = op.pair();
            this.broadcast = Broadcast.of(p.y().shape(), p.a().shape(), p.b().shape());
            this.exponent = (float) op.constant();
        }

        private boolean areOneTypeAndWhole() {
            List<CudaTensor> all = new ArrayList<>(List.of(dy));
            for (int k = 0; k < 2; k++) {
                CudaTensor operand = operand(k, true);
                if (operand != null) {
                    all.add(operand);
                }
                if (frame.wantsGradient(k)) {
                    all.add(frame.gradient(k));
                }
            }
            return broadcast.isWhole(0) && broadcast.isWhole(1) && isOneNarrowFloat(all.toArray(CudaTensor[]::new));
        }

        /** Operand {@code i}, when a wanted gradient reads it; all wanted ones, or that of operand 0 or 1 only. */
        private @Nullable CudaTensor operand(int i, boolean first, boolean second) {
            boolean read = (first && frame.wantsGradient(0) && op.reads(0, i))
                    || (second && frame.wantsGradient(1) && op.reads(1, i));
            return read ? frame.input(i) : null;
        }

        private @Nullable CudaTensor operand(int i, boolean all) {
            return operand(i, all, all);
        }

        private static long address(@Nullable CudaTensor t) {
            return t == null ? 0 : t.address();
        }

        private static int code(@Nullable CudaTensor t) {
            return t == null ? 0 : CudaSource.code(t.dtype());
        }

        private void together() {
            cuda.launch(
                    SOURCE,
                    "binary_backward_" + dy.suffix(),
                    Grid.over(dy.count(), 256, 8),
                    op.function().cudaCase(),
                    dy,
                    address(operand(0, true)),
                    address(operand(1, true)),
                    frame.wantsGradient(0) ? frame.gradient(0).address() : 0L,
                    frame.wantsGradient(1) ? frame.gradient(1).address() : 0L,
                    dy.count(),
                    exponent);
        }

        private void of(int k) {
            CudaTensor a = operand(0, k == 0, k == 1);
            CudaTensor b = operand(1, k == 0, k == 1);
            CudaTensor d = frame.gradient(k);
            if (broadcast.isWhole(k)) {
                cuda.kernel(SOURCE, "binary_backward_any", Grid.over(d.count(), 256, 1))
                        .value("function", op.function().cudaCase())
                        .value("of", k)
                        .typed("type_g", "g", dy)
                        .typedOrAbsent("type_a", "a", a)
                        .typedOrAbsent("type_b", "b", b)
                        .typed("type_d", "d", d)
                        .value("n", d.count())
                        .value("rank", broadcast.lengths().length)
                        .pointer("axes", allAxes(broadcast, cuda))
                        .value("exponent", exponent)
                        .launch();
                return;
            }
            fold(k, a, b, d);
        }

        private void fold(int k, @Nullable CudaTensor a, @Nullable CudaTensor b, CudaTensor d) {
            Axes kept = axes(k, false);
            Axes repeated = axes(k, true);
            long splits = Math.max(1, Math.min(repeated.count(), THREADS / Math.max(1, d.count())));
            long parts = cuda.workspace(splits * d.count() * Float.BYTES);
            cuda.kernel(SOURCE, "binary_fold", Grid.over(splits * d.count(), 256, 1))
                    .value("function", op.function().cudaCase())
                    .value("of", k)
                    .typed("type_g", "g", dy)
                    .typedOrAbsent("type_a", "a", a)
                    .typedOrAbsent("type_b", "b", b)
                    .pointer("parts", parts)
                    .value("elements", d.count())
                    .value("repetitions", repeated.count())
                    .value("splits", splits)
                    .value("kept_rank", kept.rank())
                    .pointer("kept", kept.table())
                    .value("repeated_rank", repeated.rank())
                    .pointer("repeated", repeated.table())
                    .value("exponent", exponent)
                    .launch();
            cuda.launch(SOURCE, "binary_join", Grid.over(d.count(), 256, 1), parts, d.count(), splits, code(d), d);
        }

        /** Some axes of the result, in a table: their lengths, and along each the steps of the result, of a and of b. */
        private record Axes(int rank, long count, long table) {}

        private Axes axes(int k, boolean repeated) {
            long[] lengths = broadcast.lengths();
            long[] result = new long[lengths.length];
            long step = 1;
            for (int i = lengths.length - 1; i >= 0; i--) {
                result[i] = step;
                step *= lengths[i];
            }
            int[] chosen = IntStream.range(0, lengths.length)
                    .filter(i -> (broadcast.steps(k)[i] == 0) == repeated)
                    .toArray();
            long count = 1;
            for (int i : chosen) {
                count *= lengths[i];
            }
            long table = cuda.table(join(
                    pick(lengths, chosen),
                    pick(result, chosen),
                    pick(broadcast.steps(0), chosen),
                    pick(broadcast.steps(1), chosen)));
            return new Axes(chosen.length, count, table);
        }

        private static long[] pick(long[] from, int[] numbers) {
            return Arrays.stream(numbers).mapToLong(i -> from[i]).toArray();
        }
    }
}
