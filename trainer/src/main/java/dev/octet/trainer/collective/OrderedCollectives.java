package dev.octet.trainer.collective;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/**
 * Collectives out of one: each rank sends something to each. Sums are not left to the library that moves the bytes, because it chooses the order of summation by message
 * size, number of ranks and network: each rank gets the slice it owns from all others, adds in the order of ranks, and gives the result to all. That moves as many bytes as
 * a ring. What is small goes to all ranks at once, and each adds for itself.
 */
abstract class OrderedCollectives implements Collectives {
    /** Largest slice of a rank in one exchange: bounds the memory for copies to twice as much for each rank. */
    static final long SLICE_BYTES = 1 << 20;

    /** Up to so many bytes of all ranks together one exchange is quicker than two. */
    static final long SMALL_BYTES = 1 << 16;

    private static final MemorySegment NOTHING = MemorySegment.NULL;

    private MemorySegment outgoing = NOTHING;
    private MemorySegment incoming = NOTHING;
    private MemorySegment result = NOTHING;

    /**
     * Sends {@code out[r]} to each rank and takes {@code in[r]} from each; empty segments stand for no message, and all others lie off the heap, where any thread may read them. What is
     * for this rank is copied.
     */
    abstract void exchange(Call call, MemorySegment[] out, MemorySegment[] in);

    @Override
    public void post(MemorySegment data, int to, int channel) {
        requireOther(to);
        if (data.byteSize() > 0) {
            leave(data, to, channel);
        }
    }

    @Override
    public void take(MemorySegment data, int from, int channel) {
        requireOther(from);
        if (data.byteSize() > 0) {
            collect(data, from, channel);
        }
    }

    /** As {@link #post}, with at least one byte. */
    abstract void leave(MemorySegment data, int to, int channel);

    /** As {@link #take}, with at least one byte. */
    abstract void collect(MemorySegment data, int from, int channel);

    @Override
    public Collectives group(List<Integer> members) {
        return new GroupCollectives(this, members);
    }

    @Override
    public void allReduce(MemorySegment data, DType type, RankReduction reduction) {
        RankSum sum = new RankSum(type, reduction, size());
        sum.requireWhole(data);
        long bytes = data.byteSize();
        if (bytes == 0) {
            return;
        }
        if (bytes * size() <= SMALL_BYTES) {
            reserve(bytes);
            MemorySegment own = outgoing.asSlice(0, bytes).copyFrom(data);
            MemorySegment[] parts = slices(incoming, bytes);
            exchange(Call.ALL_REDUCE, everywhere(own), parts);
            sum.of(parts, own);
            data.copyFrom(own);
            return;
        }
        long slice = Math.min(SLICE_BYTES, Math.ceilDiv(bytes / sum.width(), (long) size()) * sum.width());
        reserve(slice);
        for (long at = 0; at < bytes; at += slice * size()) {
            long round = Math.min(slice * size(), bytes - at);
            outgoing.asSlice(0, round).copyFrom(data.asSlice(at, round));
            MemorySegment[] shares = shares(slice, round);
            long own = shares[rank()].byteSize();
            MemorySegment[] parts = own == 0 ? nothing() : slices(incoming, own);
            exchange(Call.ALL_REDUCE, shares, parts);
            MemorySegment mine = result.asSlice(0, own);
            sum.of(parts, mine);
            exchange(Call.ALL_REDUCE, own == 0 ? nothing() : everywhere(mine), shares);
            data.asSlice(at, round).copyFrom(outgoing.asSlice(0, round));
        }
    }

    @Override
    public void reduceScatter(MemorySegment data, MemorySegment own, DType type, RankReduction reduction) {
        requireAll(data, own);
        reduceScatter(List.of(slices(data, own.byteSize())), own, type, reduction);
    }

    @Override
    public void reduceScatter(List<MemorySegment> shares, MemorySegment own, DType type, RankReduction reduction) {
        RankSum sum = new RankSum(type, reduction, size());
        requireEach(shares);
        shares.forEach(sum::requireWhole);
        if (own.byteSize() != shares.get(rank()).byteSize()) {
            throw new IllegalArgumentException(
                    "a share of " + shares.get(rank()).byteSize() + " bytes, not of " + own.byteSize());
        }
        long most = longest(shares);
        for (long at = 0; at < most; at += SLICE_BYTES) {
            long slice = Math.min(SLICE_BYTES, most - at);
            reserve(slice);
            MemorySegment[] out = nothing();
            for (int r = 0; r < out.length; r++) {
                long bytes = left(shares.get(r), at, slice);
                out[r] = outgoing.asSlice(r * slice, bytes);
                out[r].copyFrom(shares.get(r).asSlice(Math.min(at, shares.get(r).byteSize()), bytes));
            }
            long mine = left(own, at, slice);
            MemorySegment[] parts = slices(incoming, mine);
            exchange(Call.REDUCE_SCATTER, out, parts);
            if (mine > 0) {
                MemorySegment reduced = result.asSlice(0, mine);
                sum.of(parts, reduced);
                own.asSlice(at, mine).copyFrom(reduced);
            }
        }
    }

    @Override
    public void allGather(MemorySegment own, MemorySegment all) {
        requireAll(all, own);
        MemorySegment[] shares = slices(all, own.byteSize());
        shares[rank()].copyFrom(own);
        allGather(List.of(shares));
    }

    @Override
    public void allGather(List<MemorySegment> shares) {
        requireEach(shares);
        MemorySegment own = shares.get(rank());
        long most = longest(shares);
        for (long at = 0; at < most; at += SLICE_BYTES) {
            long slice = Math.min(SLICE_BYTES, most - at);
            reserve(slice);
            MemorySegment[] parts = nothing();
            for (int r = 0; r < parts.length; r++) {
                parts[r] = incoming.asSlice(r * slice, left(shares.get(r), at, slice));
            }
            long mine = left(own, at, slice);
            MemorySegment given = outgoing.asSlice(0, mine);
            given.copyFrom(own.asSlice(Math.min(at, own.byteSize()), mine));
            exchange(Call.ALL_GATHER, everywhere(given), parts);
            for (int r = 0; r < parts.length; r++) {
                if (r != rank() && parts[r].byteSize() > 0) {
                    shares.get(r).asSlice(at, parts[r].byteSize()).copyFrom(parts[r]);
                }
            }
        }
    }

    /** How many bytes of a share belong to the slice that begins at a byte. */
    private static long left(MemorySegment share, long at, long slice) {
        return Math.clamp(share.byteSize() - at, 0, slice);
    }

    private static long longest(List<MemorySegment> shares) {
        return shares.stream().mapToLong(MemorySegment::byteSize).max().orElse(0);
    }

    private void requireEach(List<MemorySegment> shares) {
        if (shares.size() != size()) {
            throw new IllegalArgumentException(shares.size() + " shares of " + size() + " ranks");
        }
    }

    @Override
    public void broadcast(MemorySegment data, int from) {
        requireRank(from);
        move(Call.BROADCAST, data, from, -1);
    }

    @Override
    public void send(MemorySegment data, int to) {
        requireOther(to);
        move(Call.MESSAGE, data, rank(), to);
    }

    @Override
    public void receive(MemorySegment data, int from) {
        requireOther(from);
        move(Call.MESSAGE, data, from, rank());
    }

    /** Moves bytes from one rank to another, or to all for -1. */
    private void move(Call call, MemorySegment data, int from, int to) {
        for (long at = 0; at < data.byteSize(); at += SLICE_BYTES) {
            long slice = Math.min(SLICE_BYTES, data.byteSize() - at);
            reserve(slice);
            MemorySegment buffer = outgoing.asSlice(0, slice);
            MemorySegment[] out = nothing();
            MemorySegment[] in = nothing();
            if (rank() == from) {
                buffer.copyFrom(data.asSlice(at, slice));
                for (int r = 0; r < size(); r++) {
                    out[r] = r != from && (to < 0 || r == to) ? buffer : NOTHING;
                }
                exchange(call, out, in);
            } else {
                in[from] = buffer;
                exchange(call, out, in);
                data.asSlice(at, slice).copyFrom(buffer);
            }
        }
    }

    @Override
    public void barrier() {
        reserve(1);
        exchange(Call.BARRIER, everywhere(outgoing.asSlice(0, 1)), slices(incoming, 1));
    }

    /** Room for a slice of each rank, twice, and for a result. */
    private void reserve(long slice) {
        if (result.byteSize() < slice) {
            // shared, so that ranks which are threads read from each other
            Arena arena = Arena.ofAuto();
            outgoing = arena.allocate(slice * size(), 64);
            incoming = arena.allocate(slice * size(), 64);
            result = arena.allocate(slice, 64);
        }
    }

    private MemorySegment[] slices(MemorySegment of, long bytes) {
        MemorySegment[] all = new MemorySegment[size()];
        for (int r = 0; r < all.length; r++) {
            all[r] = of.asSlice(r * bytes, bytes);
        }
        return all;
    }

    /** What each rank owns of a round; the last ones may have less, or nothing. */
    private MemorySegment[] shares(long slice, long round) {
        MemorySegment[] all = new MemorySegment[size()];
        for (int r = 0; r < all.length; r++) {
            long from = Math.min(r * slice, round);
            all[r] = outgoing.asSlice(from, Math.min(slice, round - from));
        }
        return all;
    }

    private MemorySegment[] everywhere(MemorySegment data) {
        MemorySegment[] all = new MemorySegment[size()];
        Arrays.fill(all, data);
        return all;
    }

    private MemorySegment[] nothing() {
        return everywhere(NOTHING);
    }

    private void requireAll(MemorySegment all, MemorySegment own) {
        if (all.byteSize() != own.byteSize() * size()) {
            throw new IllegalArgumentException(
                    size() + " ranks with " + own.byteSize() + " bytes each have not " + all.byteSize());
        }
    }

    private void requireRank(int rank) {
        if (rank < 0 || rank >= size()) {
            throw new IllegalArgumentException("there is no rank " + rank + " of " + size());
        }
    }

    private void requireOther(int rank) {
        requireRank(rank);
        if (rank == rank()) {
            throw new IllegalArgumentException(name() + " and itself");
        }
    }

    /** For a wait that took too long. */
    UnavailableException late(Duration deadline, String others, Call call) {
        return new UnavailableException(
                name() + " waited " + deadline.toSeconds() + " s for " + others,
                "ranks of the run, in " + call.text(),
                "see what " + others + " is doing, for example with jstack; " + RankEnvironment.DEADLINE
                        + " sets another number of seconds");
    }
}
