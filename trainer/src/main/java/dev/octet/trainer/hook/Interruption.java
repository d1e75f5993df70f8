package dev.octet.trainer.hook;

import org.jspecify.annotations.Nullable;

/**
 * Ends a run from outside, by any thread and at any time: what is asked before the run begins counts as soon as it does. To be given to a
 * run as a hook.
 */
public final class Interruption implements TrainingHook {
    private @Nullable RunControl control;
    private boolean asked;

    /**
     * Asks the run to end: after the step that is being done and with a checkpoint of it, or before its first step with nothing written.
     *
     * @return whether the run has begun, so that there is something to wait for
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
