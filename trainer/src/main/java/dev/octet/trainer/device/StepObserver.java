package dev.octet.trainer.device;

import dev.octet.trainer.program.Step;

/** Observes the steps of an executable: for timing, statistics and the search for non-finite numbers. */
@FunctionalInterface
public interface StepObserver {
    /**
     * Called after each step that computes something for the first time, in execution order: repeated steps ({@link Step#repeats}) are not seen.
     *
     * @param nanos duration of the step
     * @param running reads the step's results, which are valid until the next step
     */
    void after(Step step, long nanos, Executable running);
}
