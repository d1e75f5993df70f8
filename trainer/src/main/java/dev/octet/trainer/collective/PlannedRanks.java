package dev.octet.trainer.collective;

import dev.octet.formats.error.UnavailableException;
import java.lang.foreign.MemorySegment;

/** The first of ranks of which the others are not there: enough to plan what it would do, and no more. */
final class PlannedRanks extends OrderedCollectives {
    private final int size;
    private final int processes;

    /** @param processes of the whole mesh */
    PlannedRanks(int size, int processes) {
        this.size = size;
        this.processes = processes;
    }

    @Override
    public int rank() {
        return 0;
    }

    @Override
    public int size() {
        return size;
    }

    @Override
    public String engine() {
        return "none";
    }

    @Override
    void exchange(Call call, MemorySegment[] out, MemorySegment[] in) {
        throw missing();
    }

    @Override
    void leave(MemorySegment data, int to, int channel) {
        throw missing();
    }

    @Override
    void collect(MemorySegment data, int from, int channel) {
        throw missing();
    }

    UnavailableException missing() {
        return new UnavailableException(
                "one process is there of the " + processes + " that share the model",
                "distributed: {tensor, pipeline}",
                "start it with mpirun -n " + processes + "; --dry-run needs one process alone");
    }

    @Override
    public void abandon(int exitCode) {}

    @Override
    public void close() {}
}
