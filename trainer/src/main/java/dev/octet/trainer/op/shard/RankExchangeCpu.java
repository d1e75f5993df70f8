package dev.octet.trainer.op.shard;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** Sums are rounded to the tensor's type once. Shares travel side by side and lie apart in the whole tensor. */
final class RankExchangeCpu implements CpuKernel<RankExchange> {
    @Override
    public void forward(RankExchange op, Frame<CpuTensor> frame, CpuContext cpu) {
        exchange(op, op.kind().forward(), frame.input(0), frame.output(0));
    }

    @Override
    public void backward(RankExchange op, Frame<CpuTensor> frame, CpuContext cpu) {
        exchange(op, op.kind().backward(), frame.upstream(0), frame.gradient(0));
    }

    private static void exchange(RankExchange op, RankExchange.Way way, CpuTensor x, CpuTensor y) {
        Collectives ranks = op.ranks();
        switch (way) {
            case KEEP -> y.bytes().copyFrom(x.bytes());
            case SUM -> all(ranks, x, y, RankReduction.SUM);
            case LARGEST -> all(ranks, x, y, RankReduction.MAX);
            case LEAST -> all(ranks, x, y, RankReduction.MIN);
            case GATHER -> {
                try (Arena arena = Arena.ofConfined()) {
                    List<MemorySegment> shares = room(op, x, arena);
                    shares.set(op.rank(), x.bytes());
                    ranks.allGather(shares);
                    for (int r = 0; r < shares.size(); r++) {
                        copy(op, r, y, shares.get(r), false);
                    }
                }
            }
            case SUM_SHARES -> {
                try (Arena arena = Arena.ofConfined()) {
                    List<MemorySegment> shares = room(op, x, arena);
                    for (int r = 0; r < shares.size(); r++) {
                        copy(op, r, x, shares.get(r), true);
                    }
                    ranks.reduceScatter(shares, y.bytes(), y.dtype(), RankReduction.SUM);
                }
            }
            case SHARE -> copy(op, op.rank(), x, y.bytes(), true);
        }
    }

    private static void all(Collectives ranks, CpuTensor x, CpuTensor y, RankReduction reduction) {
        y.bytes().copyFrom(x.bytes());
        ranks.allReduce(y.bytes(), y.dtype(), reduction);
    }

    private static List<MemorySegment> room(RankExchange op, CpuTensor x, Arena arena) {
        List<MemorySegment> all = new ArrayList<>();
        for (long share : op.shares()) {
            long bytes = op.outer() * share * op.inner() * x.dtype().bits() / 8;
            all.add(arena.allocate(Math.max(1, bytes), 64).asSlice(0, bytes));
        }
        return all;
    }

    /** Copies a rank's share out of the whole tensor, or into it. */
    private static void copy(RankExchange op, int rank, CpuTensor whole, MemorySegment share, boolean out) {
        long width = op.inner() * whole.dtype().bits() / 8;
        long before =
                op.shares().subList(0, rank).stream().mapToLong(Long::longValue).sum();
        long axis = op.shares().stream().mapToLong(Long::longValue).sum();
        long run = op.shares().get(rank) * width;
        for (long o = 0; o < op.outer() && run > 0; o++) {
            MemorySegment there = whole.bytes().asSlice((o * axis + before) * width, run);
            MemorySegment here = share.asSlice(o * run, run);
            (out ? here : there).copyFrom(out ? there : here);
        }
    }
}
