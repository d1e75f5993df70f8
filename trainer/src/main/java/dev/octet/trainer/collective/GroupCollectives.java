package dev.octet.trainer.collective;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;

/**
 * Some of the ranks among themselves. Their messages are those of all ranks with no others: deadlines, names and ends stay, and no engine needs groups of its own. Two ranks that have several
 * groups in common make the calls of all of them in one order.
 */
final class GroupCollectives extends OrderedCollectives {
    private final OrderedCollectives all;
    private final List<Integer> members;
    private final int rank;

    GroupCollectives(OrderedCollectives all, List<Integer> members) {
        this.all = all;
        this.members = List.copyOf(members);
        this.rank = members.indexOf(all.rank());
        boolean known = members.stream().allMatch(m -> m >= 0 && m < all.size());
        if (rank < 0 || !known || members.stream().distinct().count() != members.size()) {
            throw new IllegalArgumentException(all.name() + " in a group of " + members);
        }
    }

    @Override
    public int rank() {
        return rank;
    }

    @Override
    public int size() {
        return members.size();
    }

    @Override
    public String engine() {
        return all.engine();
    }

    @Override
    public String name() {
        return all.name();
    }

    @Override
    public int worldRank(int member) {
        return all.worldRank(members.get(member));
    }

    @Override
    void exchange(Call call, MemorySegment[] out, MemorySegment[] in) {
        all.exchange(call, ofAll(out), ofAll(in));
    }

    @Override
    void leave(MemorySegment data, int to, int channel) {
        all.leave(data, members.get(to), channel);
    }

    @Override
    void collect(MemorySegment data, int from, int channel) {
        all.collect(data, members.get(from), channel);
    }

    private MemorySegment[] ofAll(MemorySegment[] own) {
        MemorySegment[] each = new MemorySegment[all.size()];
        Arrays.fill(each, MemorySegment.NULL);
        for (int m = 0; m < own.length; m++) {
            each[members.get(m)] = own[m];
        }
        return each;
    }

    @Override
    public void abandon(int exitCode) {
        all.abandon(exitCode);
    }

    /** Nothing: it is all ranks that are left. */
    @Override
    public void close() {}
}
