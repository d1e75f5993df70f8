package dev.octet.trainer.gemm;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ThreadTeamTest {
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 8})
    void every_piece_runs_once(int threads) {
        try (ThreadTeam team = new ThreadTeam(threads)) {
            for (int count : new int[] {0, 1, 2, 7, 1000}) {
                AtomicIntegerArray runs = new AtomicIntegerArray(count);
                team.pieces(count, runs::incrementAndGet);
                for (int i = 0; i < count; i++) {
                    assertEquals(1, runs.get(i));
                }
            }
        }
    }

    @Test
    void many_short_calls_see_what_the_calls_before_wrote() {
        int[] sums = new int[16];
        try (ThreadTeam team = new ThreadTeam(2)) {
            for (int call = 0; call < 3_000; call++) {
                int last = call;
                team.pieces(sums.length, i -> sums[i] = sums[i] == last ? last + 1 : -1);
            }
        }
        int[] expected = new int[16];
        Arrays.fill(expected, 3_000);
        assertArrayEquals(expected, sums);
    }

    @Test
    void several_threads_take_part() throws InterruptedException {
        Set<Thread> seen = ConcurrentHashMap.newKeySet();
        CountDownLatch both = new CountDownLatch(2);
        try (ThreadTeam team = new ThreadTeam(2)) {
            team.pieces(2, i -> {
                seen.add(Thread.currentThread());
                both.countDown();
                try {
                    both.await(); // ends only if another thread has the other piece
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            });
        }
        assertEquals(2, seen.size());
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3})
    void the_first_failing_piece_is_thrown_when_all_have_ended(int threads) {
        try (ThreadTeam team = new ThreadTeam(threads)) {
            AtomicInteger ended = new AtomicInteger();
            IllegalStateException thrown = assertThrows(
                    IllegalStateException.class,
                    () -> team.pieces(50, i -> {
                        ended.incrementAndGet();
                        if (i % 7 == 3) {
                            throw new IllegalStateException("piece " + i);
                        }
                    }));
            assertEquals("piece 3", thrown.getMessage());
            assertEquals(50, ended.get());
            team.pieces(2, i -> ended.incrementAndGet());
            assertEquals(52, ended.get());
        }
    }

    @Test
    void an_error_is_passed_on_as_it_is() {
        AssertionError error = new AssertionError("planted");
        try (ThreadTeam team = new ThreadTeam(2)) {
            assertSame(
                    error,
                    assertThrows(
                            AssertionError.class,
                            () -> team.pieces(4, i -> {
                                throw error;
                            })));
        }
    }

    @Test
    void a_call_inside_a_piece_runs_in_that_thread() {
        AtomicInteger others = new AtomicInteger();
        AtomicInteger runs = new AtomicInteger();
        try (ThreadTeam team = new ThreadTeam(3)) {
            team.pieces(6, i -> {
                Thread outer = Thread.currentThread();
                team.pieces(5, j -> {
                    runs.incrementAndGet();
                    if (!Thread.currentThread().equals(outer)) {
                        others.incrementAndGet();
                    }
                });
            });
        }
        assertEquals(30, runs.get());
        assertEquals(0, others.get());
    }

    @Test
    void a_closed_team_refuses_work() {
        ThreadTeam team = new ThreadTeam(2);
        team.close();
        assertThrows(IllegalStateException.class, () -> team.pieces(3, i -> {}));
    }

    @Test
    void a_team_needs_a_thread() {
        assertThrows(IllegalArgumentException.class, () -> new ThreadTeam(0));
        assertFalse(Thread.currentThread().isInterrupted());
        assertTrue(new ThreadTeam(1).threads() == 1);
    }
}
