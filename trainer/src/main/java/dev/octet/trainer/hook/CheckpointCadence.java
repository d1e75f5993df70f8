package dev.octet.trainer.hook;

import dev.octet.trainer.config.CheckpointConfig;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/** Requests a checkpoint after a number of steps, and when the last one is too long ago. */
public final class CheckpointCadence implements TrainingHook {
    private final CheckpointConfig config;
    private final LongSupplier nanos;
    private @Nullable RunControl control;
    private long lastNanos;

    /** @param config how often */
    public CheckpointCadence(CheckpointConfig config) {
        this(config, System::nanoTime);
    }

    /** @param nanos a clock, in nanoseconds from any moment */
    CheckpointCadence(CheckpointConfig config, LongSupplier nanos) {
        this.config = config;
        this.nanos = nanos;
    }

    @Override
    public void runStarted(RunStart start, RunControl runControl) {
        control = runControl;
        lastNanos = nanos.getAsLong();
    }

    @Override
    public void checkpointWritten(CheckpointReport report) {
        lastNanos = nanos.getAsLong();
    }

    @Override
    public void afterStep(StepReport report) {
        boolean steps = config.every() > 0 && report.step() % config.every() == 0;
        boolean time =
                config.minutes() > 0 && nanos.getAsLong() - lastNanos >= TimeUnit.MINUTES.toNanos(config.minutes());
        if (control != null && (steps || time)) {
            control.requestCheckpoint();
        }
    }
}
