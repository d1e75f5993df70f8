package dev.octet.converter.runtime;

import dev.octet.formats.tensor.Tensor;
import java.util.BitSet;

/** Receives the tapped values of an {@link InstrumentedModel}. */
public interface TapObserver {
    /**
     * Receives a tapped value of one batch. Calls for different taps may be concurrent; calls for one tap are sequential, batch by batch.
     *
     * @param tap name of the value
     * @param value F32; valid only during the call
     * @param rowLength elements of a row; a row is one token if the data have a mask, else one sample
     * @param kept rows that are not padding
     */
    void observe(String tap, Tensor value, long rowLength, BitSet kept);

    /**
     * Called after all taps of a batch.
     *
     * @param samples samples done, counted from the data set's first
     */
    void batchDone(int samples);
}
