package dev.octet.trainer.device;

import dev.octet.trainer.program.Step;

/** Watches the steps of an executable: for timing, statistics, and for finding where a number went bad. */
@FunctionalInterface
public interface StepObserver {
    /**
     * Called after each step that computes something, in order.
     *
     * @param nanos how long it took
     * @param running lets the step's results be read; they are there until the next step
     */
    void after(Step step, long nanos, Executable running);
}
