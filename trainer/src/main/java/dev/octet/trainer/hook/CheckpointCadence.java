package dev.octet.trainer.hook;

import org.jspecify.annotations.Nullable;

/** Requests a checkpoint at fixed intervals. */
public final class CheckpointCadence implements TrainingHook {
    private final long every;
    private @Nullable RunControl control;

    /** @param every steps between two checkpoints; 0 for never */
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
