package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.trainer.device.Fetched;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("kernels")
class CudaQueueTest {
    private final Gpu gpu = TestGpus.host();
    private final CudaQueue queue = new CudaQueue(gpu);
    private final Arena arena = Arena.ofConfined();
    private final List<String> ran = new ArrayList<>();

    @BeforeEach
    void nothing_has_run() {
        ran.clear();
    }

    @AfterEach
    void close() {
        queue.close();
        gpu.close();
        arena.close();
    }

    private static final class Named implements Work {
        private final String name;
        private final List<String> ran;

        Named(String name, List<String> ran) {
            this.name = name;
            this.ran = ran;
        }

        @Override
        public void run() {
            ran.add(name);
        }

        @Override
        public String name() {
            return name;
        }
    }

    private MemorySegment number(long x) {
        MemorySegment s = arena.allocate(ValueLayout.JAVA_LONG);
        s.set(ValueLayout.JAVA_LONG, 0, x);
        return s;
    }

    private List<Work> zeros(long at) {
        List<Work> all = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            all.add(gpu.zero(at + 8L * i, 8));
        }
        return all;
    }

    @Test
    void nothing_starts_before_somebody_waits() {
        queue.add(new Named("a", ran));
        queue.add(new Named("b", ran));
        assertEquals(List.of(), ran);
        queue.finish();
        assertEquals(List.of("a", "b"), ran);
    }

    @Test
    void what_is_fetched_is_as_it_was_behind_the_work_before_it() {
        long at = gpu.allocate(256, "a test");
        queue.write(at, number(3));
        Fetched three = queue.fetch(at, 8);
        queue.write(at, number(4));
        Fetched four = queue.fetch(at, 8);
        assertEquals(3, three.bytes().get(ValueLayout.JAVA_LONG, 0));
        assertEquals(4, four.bytes().get(ValueLayout.JAVA_LONG, 0));
        queue.forget(List.of(), at, 256);
        gpu.release(at);
    }

    @Test
    void what_is_read_late_is_as_it_was_when_it_was_fetched() {
        long at = gpu.allocate(256, "a test");
        List<Fetched> fetched = new ArrayList<>();
        for (long i = 0; i < 4; i++) {
            queue.write(at, number(i));
            fetched.add(queue.fetch(at, 8));
            if (i % 2 == 0) {
                queue.finish(); // as where something else is read
            }
        }
        for (int i = 0; i < 4; i++) {
            assertEquals(i, fetched.get(i).bytes().get(ValueLayout.JAVA_LONG, 0));
        }
        queue.forget(List.of(), at, 256);
        gpu.release(at);
    }

    @Test
    void what_the_host_does_is_done_in_its_place() {
        long at = gpu.allocate(256, "a test");
        MemorySegment pinned = gpu.pinned(8);
        List<Long> seen = new ArrayList<>();
        HostWork adds = new HostWork("adds 1", () -> {
            long number = pinned.get(ValueLayout.JAVA_LONG, 0);
            seen.add(number);
            pinned.set(ValueLayout.JAVA_LONG, 0, number + 1);
        });
        List<Work> step = List.of(gpu.download(at, pinned), adds, gpu.upload(pinned, at));
        for (long i = 0; i < 3; i++) {
            queue.write(at, number(10 * i));
            step.forEach(queue::add);
            step.forEach(queue::add);
            assertEquals(10 * i + 2, queue.fetch(at, 8).bytes().get(ValueLayout.JAVA_LONG, 0));
        }
        assertEquals(List.of(0L, 1L, 10L, 11L, 20L, 21L), seen);
        queue.forget(step, at, 256);
        gpu.release(at);
    }

    @Test
    void work_of_the_host_that_fails_ends_the_step_and_leaves_a_queue_that_goes_on() {
        long at = gpu.allocate(256, "a test");
        HostWork fails = new HostWork("fails", () -> {
            throw new IllegalStateException("the other rank is gone");
        });
        queue.write(at, number(1));
        Fetched before = queue.fetch(at, 8);
        assertThrows(IllegalStateException.class, () -> queue.add(fails));
        queue.write(at, number(2));
        assertEquals(2, queue.fetch(at, 8).bytes().get(ValueLayout.JAVA_LONG, 0));
        assertEquals(1, before.bytes().get(ValueLayout.JAVA_LONG, 0));
        queue.forget(List.of(fails), at, 256);
        gpu.release(at);
    }

    @Test
    void a_sequence_that_comes_again_is_one_graph_with_the_new_numbers() {
        long at = gpu.allocate(256, "a test");
        List<Work> zeros = zeros(at + 64);
        List<Long> read = new ArrayList<>();
        for (long step = 1; step <= 5; step++) {
            zeros.forEach(queue::add);
            queue.write(at, number(step));
            read.add(queue.fetch(at, 8).bytes().get(ValueLayout.JAVA_LONG, 0));
            assertEquals(step < 2 ? 0 : 1, queue.graphs());
        }
        assertArrayEquals(
                new long[] {1, 2, 3, 4, 5}, read.stream().mapToLong(x -> x).toArray());
        queue.forget(zeros, at, 256);
        assertEquals(0, queue.graphs());
        gpu.release(at);
    }

    /** A step's work, its batch and its result, which is not waited for. */
    private Fetched step(List<Work> work, long at, MemorySegment batch) {
        work.forEach(queue::add);
        queue.write(at, batch);
        return queue.fetch(at, 8);
    }

    @Test
    void what_is_staged_while_a_step_runs_arrives_in_the_next_one() {
        long at = gpu.allocate(256, "a test");
        List<Work> zeros = zeros(at + 64);
        List<Long> read = new ArrayList<>();
        MemorySegment batch = number(1);
        for (long step = 1; step <= 8; step++) {
            Fetched result = step(zeros, at, batch);
            queue.start();
            batch = number(step + 1);
            queue.stage(at, batch);
            read.add(result.bytes().get(ValueLayout.JAVA_LONG, 0));
        }
        assertEquals(List.of(1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L), read);
        assertEquals(2, queue.graphs()); // whose batches lie in memory of their own
        queue.forget(zeros, at, 256);
        gpu.release(at);
    }

    @Test
    void staging_does_not_wait_and_does_not_touch_what_runs() {
        long at = gpu.allocate(256, "a test");
        List<MemorySegment> uploaded = new ArrayList<>();
        int[] waits = {0};
        Gpu watched = new ForwardingGpu(gpu) {
            @Override
            public Work upload(MemorySegment pinned, long to) {
                uploaded.add(pinned);
                return super.upload(pinned, to);
            }

            @Override
            public void synchronize() {
                waits[0]++;
                super.synchronize();
            }
        };
        CudaQueue own = new CudaQueue(watched);
        own.write(at, number(1));
        own.start();
        MemorySegment next = number(2);
        own.stage(at, next);
        own.write(at, next);
        assertEquals(0, waits[0]);
        assertEquals(
                List.of(1L, 2L),
                uploaded.stream().map(s -> s.get(ValueLayout.JAVA_LONG, 0)).toList());
        own.forget(List.of(), at, 256);
        gpu.release(at);
    }

    @Test
    void other_bytes_than_those_that_were_staged_are_the_ones_that_arrive() {
        long at = gpu.allocate(256, "a test");
        queue.write(at, number(1));
        queue.start();
        queue.stage(at, number(2));
        queue.write(at, number(3));
        assertEquals(3, queue.fetch(at, 8).bytes().get(ValueLayout.JAVA_LONG, 0));
        queue.forget(List.of(), at, 256);
        gpu.release(at);
    }

    @Test
    void a_sequence_that_differs_is_another_graph() {
        long at = gpu.allocate(512, "a test");
        List<Work> zeros = zeros(at + 64);
        for (int step = 0; step < 6; step++) {
            zeros.forEach(queue::add);
            if (step % 2 == 1) {
                queue.add(zeros.getFirst());
            }
            queue.finish();
        }
        assertEquals(2, queue.graphs());
        queue.forget(zeros, at, 512);
        gpu.release(at);
    }
}
