package dev.octet.trainer.hook;

import java.util.List;

/** Gradients of a step, summed over its micro-batches, on the device. Valid while the hook is called. */
public interface Gradients {
    /** Names of the trained parameters. */
    List<String> names();

    /**
     * Elements of one, copied from the device, loss scale taken out.
     *
     * @throws IllegalArgumentException when there is no such parameter
     */
    float[] read(String parameter);
}
