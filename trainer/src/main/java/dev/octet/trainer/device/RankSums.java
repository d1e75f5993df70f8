package dev.octet.trainer.device;

import dev.octet.trainer.program.Value;
import java.util.List;

/** Averages of values that lie on the devices of several ranks, by a library that moves them from device to device. The order of its additions is its own. */
public interface RankSums extends AutoCloseable {
    /**
     * Replaces F32 values by their averages over all ranks, behind the work so far.
     *
     * @param values in device memory, the same on all ranks
     * @throws dev.octet.formats.error.UnavailableException when the library reports an error
     */
    void average(List<Value> values);

    @Override
    void close();
}
