package dev.octet.trainer.gemm;

import dev.octet.quant.work.Workers;
import dev.octet.trainer.kernel.Parallel;
import java.util.function.IntConsumer;

/** A fixed number of threads. */
public final class ThreadTeam implements Parallel {
    private final int threads;

    public ThreadTeam(int threads) {
        this.threads = threads;
    }

    @Override
    public int threads() {
        return threads;
    }

    @Override
    public void pieces(int count, IntConsumer piece) {
        Workers.run(count, threads, piece);
    }

    @Override
    public void close() {}
}
