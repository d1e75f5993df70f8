package dev.octet.trainer.device.cuda;

import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * How values in host memory pass through the GPU: windows of consecutive steps, whose values fit a buffer together. Two buffers take turns, so that the values of the
 * next window arrive and those of the last one leave while a window computes (as ZeRO-Offload's, arXiv:2101.06840 section 4).
 */
final class StreamPlan {
    /** Bytes of values that a window takes together, unless a single step needs more. */
    static final long WINDOW_BYTES = 64L << 20;

    /** The buffers. */
    static final int BUFFERS = 2;

    /**
     * Steps that compute with values of the host.
     *
     * @param number of the window in its phase
     * @param from first step, among those of the phase that compute
     * @param end after its last step
     * @param offsets of the values in the window's buffer
     * @param written those that its steps change
     */
    record Window(int number, int from, int end, Map<Value, Long> offsets, Set<Value> written) {
        int buffer() {
            return number % BUFFERS;
        }
    }

    private final Map<Phase, List<Window>> windows = new EnumMap<>(Phase.class);
    private long bufferBytes;

    private StreamPlan() {}

    /**
     * The plan of a program.
     *
     * @param roots by which views are their origins
     * @param onHost whether a lasting value lies there
     * @param windowBytes bytes of values that a window takes together
     */
    static StreamPlan of(Program program, MemoryPlan roots, Predicate<Value> onHost, long windowBytes) {
        StreamPlan plan = new StreamPlan();
        for (Phase phase : Phase.values()) {
            List<Step> steps =
                    program.steps(phase).stream().filter(s -> !s.isView()).toList();
            plan.windows.put(phase, plan.windows(steps, roots, onHost, windowBytes));
        }
        return plan;
    }

    private List<Window> windows(List<Step> steps, MemoryPlan roots, Predicate<Value> onHost, long windowBytes) {
        List<Window> list = new ArrayList<>();
        Open open = null;
        for (int i = 0; i < steps.size(); i++) {
            Set<Value> used = used(steps.get(i), roots, onHost);
            if (used.isEmpty()) {
                continue;
            }
            if (open != null && open.bytesWith(used) > windowBytes) {
                list.add(open.window(list.size()));
                open = null;
            }
            if (open == null) {
                open = new Open(i);
            }
            open.add(i, used, written(steps.get(i), roots));
            bufferBytes = Math.max(bufferBytes, open.bytes);
        }
        if (open != null) {
            list.add(open.window(list.size()));
        }
        return list;
    }

    private static Set<Value> used(Step step, MemoryPlan roots, Predicate<Value> onHost) {
        Set<Value> used = new LinkedHashSet<>();
        for (Value v : step.operands()) {
            Value root = roots.root(v);
            if (root.role().isShared() && onHost.test(root)) {
                used.add(root);
            }
        }
        return used;
    }

    private static Set<Value> written(Step step, MemoryPlan roots) {
        Set<Value> written = new LinkedHashSet<>();
        for (Value v : step.results()) {
            if (v != null) {
                written.add(roots.root(v));
            }
        }
        return written;
    }

    /** A window that grows. */
    private static final class Open {
        private final int from;
        private int end;
        private long bytes;
        private final Map<Value, Long> offsets = new HashMap<>();
        private final Set<Value> written = new LinkedHashSet<>();

        Open(int from) {
            this.from = from;
        }

        long bytesWith(Set<Value> more) {
            return bytes
                    + more.stream()
                            .filter(v -> !offsets.containsKey(v))
                            .mapToLong(v -> CudaMemory.aligned(v.type().byteSize()))
                            .sum();
        }

        void add(int step, Set<Value> used, Set<Value> results) {
            for (Value v : used) {
                if (offsets.putIfAbsent(v, bytes) == null) {
                    bytes += CudaMemory.aligned(v.type().byteSize());
                }
                if (results.contains(v)) {
                    written.add(v);
                }
            }
            end = step + 1;
        }

        Window window(int number) {
            return new Window(number, from, end, Map.copyOf(offsets), Set.copyOf(written));
        }
    }

    /** Windows of a phase, in order. */
    List<Window> windows(Phase phase) {
        return windows.getOrDefault(phase, List.of());
    }

    /** The window that a step belongs to; null for none. */
    @Nullable
    Window at(Phase phase, int step) {
        for (Window w : windows(phase)) {
            if (w.from() <= step && step < w.end()) {
                return w;
            }
        }
        return null;
    }

    /** Where steps that run together with this one end at the latest: no fusion crosses the border of a window. */
    int limit(Phase phase, int step, int steps) {
        for (Window w : windows(phase)) {
            if (step < w.from()) {
                return w.from();
            }
            if (step < w.end()) {
                return w.end();
            }
        }
        return steps;
    }

    /** Bytes of one buffer. */
    long bufferBytes() {
        return bufferBytes;
    }

    /** Bytes of all buffers. */
    long bytes() {
        return BUFFERS * bufferBytes;
    }
}
