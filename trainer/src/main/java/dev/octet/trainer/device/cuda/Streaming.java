package dev.octet.trainer.device.cuda;

import dev.octet.trainer.device.cuda.StreamPlan.Window;
import dev.octet.trainer.program.Value;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.function.ToLongFunction;

/**
 * The copies that pass one phase's values of the host through the GPU. Window k computes once its values have arrived; they may arrive once window k - 2, which had the
 * same buffer, has left, or window k - 1, where it changed one of them. The phase ends when the last window has left.
 */
final class Streaming {
    private final List<List<Work>> before = new ArrayList<>();
    private final List<List<Work>> after = new ArrayList<>();
    private final List<List<Work>> alone = new ArrayList<>();
    private final List<List<Work>> back = new ArrayList<>();
    private final List<Work> all = new ArrayList<>();

    /** @param bufferAt address of a window's buffer */
    Streaming(Gpu gpu, CudaMemory memory, List<Window> windows, ToLongFunction<Window> bufferAt) {
        List<Signal> left = new ArrayList<>();
        for (Window w : windows) {
            int k = w.number();
            long buffer = bufferAt.applyAsLong(w);
            List<Value> values = w.offsets().keySet().stream()
                    .sorted(Comparator.comparing(Value::name))
                    .toList();
            List<Value> written = values.stream().filter(w.written()::contains).toList();

            List<Work> opening = new ArrayList<>();
            if (k == 0) {
                both(gpu.signal(Lane.COMPUTE, Lane.IN), opening);
                both(gpu.signal(Lane.COMPUTE, Lane.OUT), opening);
            }
            boolean follows = k >= 1
                    && !Collections.disjoint(
                            windows.get(k - 1).written(), w.offsets().keySet());
            int awaited = follows ? k - 1 : k - 2;
            if (awaited >= 0) {
                opening.add(left.get(awaited).await());
            }
            for (Value v : values) {
                opening.add(gpu.upload(Lane.IN, memory.host(v), buffer + offset(w, v)));
            }
            both(gpu.signal(Lane.IN, Lane.COMPUTE), opening);

            List<Work> closing = new ArrayList<>();
            both(gpu.signal(Lane.COMPUTE, Lane.OUT), closing);
            for (Value v : written) {
                closing.add(gpu.download(Lane.OUT, buffer + offset(w, v), memory.host(v)));
            }
            Signal gone = gpu.signal(Lane.OUT, Lane.IN);
            left.add(gone);
            all.add(gone.await());
            closing.add(gone.set());
            if (k == windows.size() - 1) {
                both(gpu.signal(Lane.OUT, Lane.COMPUTE), closing);
            }
            before.add(opening);
            after.add(closing);
            alone.add(values.stream()
                    .map(v -> gpu.upload(memory.host(v), buffer + offset(w, v)))
                    .toList());
            back.add(written.stream()
                    .map(v -> gpu.download(buffer + offset(w, v), memory.host(v)))
                    .toList());
        }
        List.of(before, after, alone, back).forEach(lists -> lists.forEach(all::addAll));
    }

    private static void both(Signal signal, List<Work> works) {
        works.add(signal.set());
        works.add(signal.await());
    }

    private static long offset(Window window, Value value) {
        Long offset = window.offsets().get(value);
        if (offset == null) {
            throw new IllegalStateException(value + " is not in the window");
        }
        return offset;
    }

    /** Before the work of a window: its values arrive, in a lane of their own. */
    List<Work> before(Window window) {
        return before.get(window.number());
    }

    /** After the work of a window: the values that it changed leave, in a lane of their own. */
    List<Work> after(Window window) {
        return after.get(window.number());
    }

    /** As {@link #before}, in the lane that computes: for steps that are watched one by one. */
    List<Work> beforeAlone(Window window) {
        return alone.get(window.number());
    }

    /** As {@link #after}, in the lane that computes. */
    List<Work> afterAlone(Window window) {
        return back.get(window.number());
    }

    /** All works, some more than once. */
    List<Work> works() {
        return all;
    }
}
