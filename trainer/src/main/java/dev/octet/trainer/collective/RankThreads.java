package dev.octet.trainer.collective;

import dev.octet.formats.error.UnavailableException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * Ranks that are threads of this process: what a run on several does, without a launcher or a library. Tests and simulations use it.
 *
 * <pre>{@code
 * List<Float> sums = RankThreads.run(3, Duration.ofSeconds(10), ranks -> ranks.allReduce(ranks.rank(), RankReduction.SUM));
 * }</pre>
 */
public final class RankThreads {
    /** Native kernels take more than half a megabyte of a thread's stack. */
    private static final long STACK_BYTES = 8L << 20;

    private RankThreads() {}

    /** What a rank does. */
    @FunctionalInterface
    public interface Work<T> {
        /** The result of this rank. */
        T of(Collectives ranks) throws IOException;
    }

    /**
     * Runs ranks to their end.
     *
     * @param size how many, at least 1
     * @param deadline how long a rank waits for another before it gives up
     * @return the results in the order of ranks
     * @throws UnavailableException when a rank failed, with its name and its exception as the cause; all others have ended then
     */
    public static <T> List<T> run(int size, Duration deadline, Work<T> work) {
        ThreadBoard board = new ThreadBoard(size, deadline);
        List<Rank<T>> ranks = new ArrayList<>();
        for (int r = 0; r < size; r++) {
            ranks.add(new Rank<>(board, r, work));
        }
        ranks.forEach(Thread::start);
        for (Rank<T> rank : ranks) {
            boolean ended = false;
            while (!ended) {
                try {
                    rank.join();
                    ended = true;
                } catch (InterruptedException e) {
                    board.fail(rank.number, e);
                    Thread.currentThread().interrupt();
                    ended = !rank.isAlive();
                    Thread.onSpinWait();
                }
            }
        }
        board.requireGood();
        List<T> results = new ArrayList<>();
        for (Rank<T> rank : ranks) {
            results.addAll(rank.result);
        }
        return results;
    }

    private static final class Rank<T> extends Thread {
        private final ThreadBoard board;
        private final int number;
        private final Work<T> work;
        /** Empty until there is one. */
        private final List<T> result = new ArrayList<>();

        Rank(ThreadBoard board, int number, Work<T> work) {
            super(null, null, "octet-rank-" + number, STACK_BYTES);
            this.board = board;
            this.number = number;
            this.work = work;
        }

        @Override
        public void run() {
            try {
                result.add(work.of(new ThreadCollectives(board, number)));
                board.end(number);
            } catch (IOException | RuntimeException | Error e) {
                board.fail(number, e);
            }
        }
    }
}
