package dev.octet.trainer.hook;

import java.util.List;

/** Gradients of a step on the device, summed over its micro-batches. Valid during the hook call. */
public interface Gradients {
    /** Names of the trained parameters. */
    List<String> names();

    /**
     * Elements of one gradient, copied from the device, without loss scale.
     *
     * @throws IllegalArgumentException when the parameter is not trained
     */
    float[] read(String parameter);
}
