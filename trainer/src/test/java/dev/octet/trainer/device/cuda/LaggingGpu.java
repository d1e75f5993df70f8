package dev.octet.trainer.device.cuda;

import static java.util.Objects.requireNonNull;

import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.jspecify.annotations.Nullable;

/**
 * A GPU whose lanes run against each other as badly as signals allow: what is put into a lane waits until somebody needs it, then the lanes take turns by chance. A copy that
 * does not wait for what it needs gives other numbers than on the GPU behind it.
 */
final class LaggingGpu extends ForwardingGpu {
    private final Map<Lane, Deque<Entry>> lanes = new EnumMap<>(Lane.class);
    private final Random random;
    private final Waits waits;

    /** Whether lanes wait for signals. */
    enum Waits {
        /** As CUDA does. */
        HONOURED,
        /** A planted fault. */
        FORGOTTEN
    }

    /** @param needed point that must be passed first; null for none */
    private record Entry(@Nullable Point needed, Runnable work) {}

    private static final class Point {
        private boolean passed;
    }

    LaggingGpu(Gpu gpu, long seed, Waits waits) {
        super(gpu);
        this.waits = waits;
        this.random = new Random(seed);
        for (Lane lane : Lane.values()) {
            lanes.put(lane, new ArrayDeque<>());
        }
    }

    private Deque<Entry> of(Lane lane) {
        return requireNonNull(lanes.get(lane));
    }

    private void put(Lane lane, @Nullable Point needed, Runnable work) {
        of(lane).add(new Entry(needed, work));
    }

    /** Runs until a lane is empty: what other lanes still have, nobody has waited for. */
    private void drain(Lane until) {
        while (!of(until).isEmpty()) {
            List<Lane> ready = new ArrayList<>();
            for (Lane lane : Lane.values()) {
                Entry first = of(lane).peek();
                if (first != null && (first.needed() == null || first.needed().passed)) {
                    ready.add(lane);
                }
            }
            if (ready.isEmpty()) {
                throw new IllegalStateException("lanes wait for each other");
            }
            of(ready.get(random.nextInt(ready.size()))).remove().work().run();
        }
    }

    private final class Lagging implements Work {
        private final Lane lane;
        private final Work work;

        Lagging(Lane lane, Work work) {
            this.lane = lane;
            this.work = work;
        }

        @Override
        public void run() {
            put(lane, null, work::run);
        }

        @Override
        public String name() {
            return work.name();
        }

        @Override
        public long bytes() {
            return work.bytes();
        }

        @Override
        public void close() {
            work.close();
        }
    }

    private record Named(String name, Runnable put) implements Work {
        @Override
        public void run() {
            put.run();
        }
    }

    @Override
    public Signal signal(Lane setter, Lane waiter) {
        @Nullable Point[] last = {null};
        return new Signal(
                new Named("set", () -> {
                    Point point = new Point();
                    last[0] = point;
                    put(setter, null, () -> point.passed = true);
                }),
                new Named("await", () -> put(waiter, waits == Waits.HONOURED ? last[0] : null, () -> {})));
    }

    @Override
    public Work upload(Lane lane, MemorySegment pinned, long to) {
        return new Lagging(lane, super.upload(lane, pinned, to));
    }

    @Override
    public Work download(Lane lane, long from, MemorySegment pinned) {
        return new Lagging(lane, super.download(lane, from, pinned));
    }

    @Override
    public Work upload(MemorySegment pinned, long to) {
        return upload(Lane.COMPUTE, pinned, to);
    }

    @Override
    public Work download(long from, MemorySegment pinned) {
        return download(Lane.COMPUTE, from, pinned);
    }

    @Override
    public Work launch(CudaSource source, String kernel, Grid grid, List<Object> arguments) {
        return new Lagging(Lane.COMPUTE, super.launch(source, kernel, grid, arguments));
    }

    @Override
    public Work product(CudaProduct product) {
        return new Lagging(Lane.COMPUTE, super.product(product));
    }

    @Override
    public Work copy(long from, long to, long bytes) {
        return new Lagging(Lane.COMPUTE, super.copy(from, to, bytes));
    }

    @Override
    public Work zero(long at, long bytes) {
        return new Lagging(Lane.COMPUTE, super.zero(at, bytes));
    }

    /** The graph's lanes as they are. */
    @Override
    public Work graph(List<Work> works) {
        List<Work> kept = List.copyOf(works);
        return new Named("graph of " + kept.size(), () -> kept.forEach(Work::run));
    }

    @Override
    public void write(long to, MemorySegment from) {
        drain(Lane.COMPUTE);
        super.write(to, from);
    }

    @Override
    public void read(long from, MemorySegment to) {
        drain(Lane.COMPUTE);
        super.read(from, to);
    }

    @Override
    public void synchronize() {
        drain(Lane.COMPUTE);
        super.synchronize();
    }

    @Override
    public void release(long address) {
        drain(Lane.COMPUTE);
        super.release(address);
    }
}
