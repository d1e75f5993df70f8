package dev.octet.converter.runtime;

import dev.octet.formats.tensor.Tensor;
import java.util.BitSet;

/** Looks at the values that flow past the taps of a {@link InstrumentedModel}. */
public interface TapObserver {
    /**
     * A tapped value of one batch. Calls for different taps may come on different threads at once; for one tap they come one after
     * another, batch by batch.
     *
     * @param tap name of the value
     * @param value F32; not to be kept beyond the call
     * @param rowLength elements of a row; a row belongs to one token where the data has a mask, else it is all of one sample
     * @param kept rows that are not padding
     */
    void observe(String tap, Tensor value, long rowLength, BitSet kept);

    /**
     * All taps of the batch were observed.
     *
     * @param samples samples done, counted from the data set's first
     */
    void batchDone(int samples);
}
