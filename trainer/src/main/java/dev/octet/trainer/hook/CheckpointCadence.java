package dev.octet.trainer.hook;

import org.jspecify.annotations.Nullable;

/** Asks for a checkpoint every so many steps. */
public final class CheckpointCadence implements TrainingHook {
    private final long every;
    private @Nullable RunControl control;

    /** @param every steps between two; 0 for never */
    public CheckpointCadence(long every) {
        this.every = every;
    }

    @Override
    public void runStarted(RunStart start, RunControl runControl) {
        control = runControl;
    }

    @Override
    public void afterStep(StepReport report) {
        if (control != null && every > 0 && report.step() % every == 0) {
            control.requestCheckpoint();
        }
    }
}
