package dev.octet.trainer.shard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.trainer.shard.CallOrder.Call;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** The order of a pipeline's calls; that no stage waits for ever is played through where schedules are drawn. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CallOrderTest {
    private static String text(List<Call> calls) {
        return calls.stream()
                .map(c -> (c.backward() ? "b" : "f") + c.microBatch() + (c.chunk() == 0 ? "" : "'"))
                .collect(Collectors.joining(" "));
    }

    @Test
    void one_stage_computes_each_micro_batch_forward_and_backward() {
        assertEquals("f0 b0 f1 b1 f2 b2", text(new CallOrder(1, 1, 3).of(0)));
    }

    @Test
    void stages_begin_as_many_micro_batches_as_there_are_stages_behind_them() {
        CallOrder order = new CallOrder(3, 1, 4);
        assertEquals("f0 f1 f2 b0 f3 b1 b2 b3", text(order.of(0)));
        assertEquals("f0 f1 b0 f2 b1 f3 b2 b3", text(order.of(1)));
        assertEquals("f0 b0 f1 b1 f2 b2 f3 b3", text(order.of(2)));
        assertEquals(
                List.of(3, 2, 1),
                IntStream.range(0, 3).mapToObj(s -> order.inFlight(s, 0)).toList());
    }

    @Test
    void chunks_take_turns_by_as_many_micro_batches_as_there_are_stages() {
        CallOrder order = new CallOrder(2, 2, 4);
        assertEquals("f0 f1 f0' f1' f2 b0' f3 b1' f2' b0 f3' b1 b2' b3' b2 b3", text(order.of(0)));
        assertEquals("f0 f1 f0' b0' f1' b1' f2 b0 f3 b1 f2' b2' f3' b3' b2 b3", text(order.of(1)));
    }

    /** What a channel's messages rest on: they are taken in the order in which they are posted. */
    @Test
    void every_chunk_computes_every_micro_batch_once_each_way_in_their_order() {
        for (int stages = 1; stages <= 5; stages++) {
            for (int chunks = 1; chunks <= (stages == 1 ? 1 : 3); chunks++) {
                CallOrder order = new CallOrder(stages, chunks, 3 * stages);
                for (int stage = 0; stage < stages; stage++) {
                    List<Call> calls = order.of(stage);
                    assertEquals(2 * chunks * 3 * stages, new HashSet<>(calls).size());
                    for (boolean backward : new boolean[] {false, true}) {
                        for (int chunk = 0; chunk < chunks; chunk++) {
                            requireInOrder(calls, backward, chunk, 3 * stages);
                        }
                    }
                }
            }
        }
    }

    private static void requireInOrder(List<Call> calls, boolean backward, int chunk, int count) {
        List<Integer> numbers = new ArrayList<>();
        calls.stream()
                .filter(c -> c.backward() == backward && c.chunk() == chunk)
                .forEach(c -> numbers.add(c.microBatch()));
        assertEquals(IntStream.range(0, count).boxed().toList(), numbers);
    }

    @Test
    void chunks_need_as_many_micro_batches_as_there_are_stages_or_a_multiple() {
        assertThrows(IllegalArgumentException.class, () -> new CallOrder(4, 2, 6));
    }
}
