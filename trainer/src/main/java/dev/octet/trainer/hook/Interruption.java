package dev.octet.trainer.hook;

import org.jspecify.annotations.Nullable;

/**
 * Stops a run from outside, from any thread. A request before the run begins takes effect as soon as it does. Pass it to the run as a hook.
 */
public final class Interruption implements TrainingHook {
    private @Nullable RunControl control;
    private boolean asked;

    /**
     * Requests the end of the run: after the current step, with a checkpoint, or before the first step, with nothing written.
     *
     * @return whether the run has begun, so that the caller has something to wait for
     */
    public synchronized boolean ask() {
        asked = true;
        tell();
        return control != null;
    }

    @Override
    public synchronized void runStarted(RunStart start, RunControl runControl) {
        control = runControl;
        tell();
    }

    private void tell() {
        if (asked && control != null) {
            control.stop(RunEnd.Reason.INTERRUPTED, "it was asked to stop");
        }
    }
}
