package dev.octet.trainer.step;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Watches a program run again, and says which step first made a number that is not finite. Infinities in forward values may be meant
 * (masks are made with them), so a NaN counts more; in gradients both count.
 */
final class NonFiniteSearch implements StepObserver {
    private static final int CHUNK = 1 << 16;

    private @Nullable String infinity;
    private @Nullable String found;

    /** Node, operator and product of the first bad step; empty when none was seen. */
    Optional<String> where() {
        return Optional.ofNullable(found).or(() -> Optional.ofNullable(infinity));
    }

    @Override
    public void after(Step step, long nanos, Executable running) {
        if (found != null) {
            return;
        }
        List<@Nullable Value> made = step.backward() ? step.gradients() : step.outputs();
        for (int i = 0; i < made.size(); i++) {
            Value value = made.get(i);
            if (value != null && isNarrowable(value.type().dtype())) {
                look(step, i, value, running);
            }
        }
    }

    private static boolean isNarrowable(DType dtype) {
        return dtype == DType.F32 || dtype == DType.F16 || dtype == DType.BF16;
    }

    private void look(Step step, int i, Value value, Executable running) {
        try (Arena arena = Arena.ofConfined()) {
            CpuTensor t = new CpuTensor(
                    value.type(),
                    arena.allocate(Math.max(1, value.type().byteSize()), 64)
                            .asSlice(0, value.type().byteSize()));
            running.read(value, t.bytes());
            float[] chunk = new float[CHUNK];
            for (long from = 0; from < t.count() && found == null; from += CHUNK) {
                int n = (int) Math.min(CHUNK, t.count() - from);
                t.read(from, chunk, 0, n);
                look(step, i, chunk, n);
            }
        }
    }

    private void look(Step step, int i, float[] chunk, int n) {
        for (int k = 0; k < n; k++) {
            if (!Float.isFinite(chunk[k])) {
                String where =
                        "node '" + step.node() + "', " + step.op().type() + ", " + product(step, i) + ": " + chunk[k];
                if (step.backward() || Float.isNaN(chunk[k])) {
                    found = where;
                    return;
                }
                if (infinity == null) {
                    infinity = where;
                }
            }
        }
    }

    /** Linears are told apart by their three products. */
    private static String product(Step step, int i) {
        if (!step.backward()) {
            return "forward" + (isLinear(step) ? " (fprop)" : "");
        }
        String of = "gradient of input " + i;
        return !isLinear(step) ? of : i == 0 ? of + " (dgrad)" : i == 1 ? of + " (wgrad)" : of + " (bias)";
    }

    private static boolean isLinear(Step step) {
        return step.op().type().endsWith("Linear") || step.op().type().equals("Gemm");
    }
}
