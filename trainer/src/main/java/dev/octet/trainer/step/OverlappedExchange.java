package dev.octet.trainer.step;

import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.shard.GradientLives;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.FutureTask;
import java.util.function.Consumer;

/**
 * Exchanges the buckets of one backward, each as soon as its gradients are complete and those before it are under way: all ranks do so in the same order, whatever the order in which their
 * gradients come. A thread of its own exchanges.
 */
final class OverlappedExchange {
    /** The step that completes gradients, with these. */
    private final IdentityHashMap<Step, List<String>> completed = new IdentityHashMap<>();

    private final List<List<String>> buckets;
    private final Consumer<List<String>> exchange;
    private final Executor thread;
    private final List<FutureTask<Void>> begun = new ArrayList<>();
    private final Set<String> missing = new HashSet<>();

    /**
     * An exchange that nothing was computed of yet.
     *
     * @param buckets parameters whose gradients travel together, in the order of exchanges
     * @param exchange of a bucket; called by {@code thread}
     * @param thread runs one after another
     */
    OverlappedExchange(Program training, List<List<String>> buckets, Consumer<List<String>> exchange, Executor thread) {
        this.buckets = buckets;
        this.exchange = exchange;
        this.thread = thread;
        Map<String, Integer> last = new HashMap<>(GradientLives.of(training).last());
        buckets.forEach(missing::addAll);
        missing.retainAll(last.keySet()); // the others are zero
        last.forEach((name, index) -> completed
                .computeIfAbsent(training.steps().get(index), _ -> new ArrayList<>())
                .add(name));
        begin();
    }

    /** Sees the steps of backward. */
    StepObserver observer() {
        return (step, _, _) -> {
            List<String> names = completed.get(step);
            if (names != null) {
                names.forEach(missing::remove);
                begin();
            }
        };
    }

    private void begin() {
        while (begun.size() < buckets.size()) {
            List<String> next = buckets.get(begun.size());
            if (next.stream().anyMatch(missing::contains)) {
                return;
            }
            FutureTask<Void> task = new FutureTask<>(() -> exchange.accept(next), null);
            begun.add(task);
            thread.execute(task);
        }
    }

    /**
     * Returns when all buckets are exchanged.
     *
     * @throws RuntimeException as the exchange threw
     */
    void await() {
        missing.clear(); // what no step completed is complete by now
        begin();
        for (FutureTask<Void> task : begun) {
            try {
                task.get();
            } catch (ExecutionException e) {
                if (e.getCause() instanceof RuntimeException unchecked) {
                    throw unchecked;
                }
                throw new IllegalStateException(e.getCause());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted while gradients are exchanged", e);
            }
        }
    }
}
