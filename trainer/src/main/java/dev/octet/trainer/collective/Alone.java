package dev.octet.trainer.collective;

import dev.octet.formats.tensor.DType;
import java.lang.foreign.MemorySegment;

/** The only rank: sums are what they are of, rounding included. */
final class Alone extends OrderedCollectives {
    @Override
    public int rank() {
        return 0;
    }

    @Override
    public int size() {
        return 1;
    }

    @Override
    public String engine() {
        return "none";
    }

    @Override
    public void allReduce(MemorySegment data, DType type, RankReduction reduction) {
        RankSum sum = new RankSum(type, reduction, 1);
        sum.requireWhole(data);
        sum.of(new MemorySegment[] {data}, data);
    }

    @Override
    void exchange(Call call, MemorySegment[] out, MemorySegment[] in) {
        in[0].copyFrom(out[0]);
    }

    @Override
    void leave(MemorySegment data, int to, int channel) {
        throw new IllegalStateException("there is no other rank");
    }

    @Override
    void collect(MemorySegment data, int from, int channel) {
        throw new IllegalStateException("there is no other rank");
    }

    @Override
    public void abandon(int exitCode) {}

    @Override
    public void close() {}
}
