package dev.octet.trainer.step;

import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.op.fp8.QuantizeFp8;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.op.shard.AverageShares;
import dev.octet.trainer.op.shard.TakeValues;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Finds the first step of a repeated program that produced a non-finite number. In forward values, infinities may be intended (masks use
 * them), so only a NaN or the infinity of a matrix product ends the search; the first other infinity is reported if neither follows. In
 * gradients any non-finite number ends it. Casts of weights and casts to FP8 are skipped: the Linear that reads them is reported, with its
 * product. So is what comes from other ranks, averages among it: they have found it.
 */
final class NonFiniteSearch implements StepObserver {
    private static final int CHUNK = 1 << 16;
    private static final Set<String> LINEARS = Set.of("Linear", "Fp8Linear", "Gemm");
    private static final Set<String> OTHER_PRODUCTS = Set.of("MatMul", "Conv");

    private final CastsOfWeights weights = new CastsOfWeights();
    private @Nullable String infinity;
    private @Nullable String found;

    /** Node, operator and product of the first bad step; empty when no step was bad. */
    Optional<String> where() {
        return Optional.ofNullable(found).or(() -> Optional.ofNullable(infinity));
    }

    @Override
    public void after(Step step, long nanos, Executable running) {
        boolean carries = weights.include(step)
                || step.op() instanceof QuantizeFp8
                || step.op() instanceof QuantizeFp8Delayed
                || step.op() instanceof AverageShares
                || step.op() instanceof TakeValues;
        if (carries) {
            return;
        }
        List<@Nullable Value> made = step.results();
        for (int i = 0; i < made.size() && found == null; i++) {
            Value value = made.get(i);
            if (value != null) {
                OptionalDouble bad = bad(value, running);
                if (bad.isPresent()) {
                    note(step, i, bad.getAsDouble(), running);
                }
            }
        }
    }

    /** A NaN among a value's elements, or else its first infinity. */
    private static OptionalDouble bad(Value value, Executable running) {
        if (!Readings.isFloat(value.type().dtype())) {
            return OptionalDouble.empty();
        }
        OptionalDouble bad = OptionalDouble.empty();
        try (Arena arena = Arena.ofConfined()) {
            CpuTensor t = Readings.of(value, running, arena);
            float[] chunk = new float[CHUNK];
            for (long from = 0; from < t.count(); from += CHUNK) {
                int n = (int) Math.min(CHUNK, t.count() - from);
                t.read(from, chunk, 0, n);
                for (int k = 0; k < n; k++) {
                    if (Float.isNaN(chunk[k])) {
                        return OptionalDouble.of(chunk[k]);
                    }
                    if (Float.isInfinite(chunk[k]) && bad.isEmpty()) {
                        bad = OptionalDouble.of(chunk[k]);
                    }
                }
            }
        }
        return bad;
    }

    private void note(Step step, int i, double x, Executable running) {
        String where = "node '" + step.node() + "', " + step.op().type() + ", " + product(step, i) + ": " + x;
        if (step.backward() || Double.isNaN(x)) {
            found = where;
        } else if (isProduct(step)) {
            // unless it only passed on an earlier step's infinity
            found = infinity != null && readsInfinity(step, running) ? infinity : where;
        } else if (infinity == null) {
            infinity = where;
        }
    }

    private static boolean readsInfinity(Step step, Executable running) {
        return step.inputs().stream().anyMatch(v -> v != null && bad(v, running).isPresent());
    }

    /** The part of the step with the bad number; of the products of a Linear, its name. */
    private static String product(Step step, int i) {
        boolean linear = LINEARS.contains(step.op().type());
        if (!step.backward()) {
            return "forward" + (linear ? " (fprop)" : "");
        }
        String of = "gradient of input " + i;
        return !linear ? of : i == 0 ? of + " (dgrad)" : i == 1 ? of + " (wgrad)" : of + " (bias)";
    }

    private static boolean isProduct(Step step) {
        return LINEARS.contains(step.op().type())
                || OTHER_PRODUCTS.contains(step.op().type());
    }
}
