package dev.octet.trainer.hook;

import dev.octet.trainer.config.CheckpointConfig;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.LongUnaryOperator;
import org.jspecify.annotations.Nullable;

/** Requests a checkpoint after a number of steps or at the end of epochs, and when the last one is too long ago. */
public final class CheckpointCadence implements TrainingHook {
    private final CheckpointConfig config;
    private final LongUnaryOperator epochs;
    private final LongSupplier nanos;
    private @Nullable RunControl control;
    private long lastNanos;

    /**
     * A cadence of a run.
     *
     * @param config how often
     * @param epochs how many epochs end with a step
     */
    public CheckpointCadence(CheckpointConfig config, LongUnaryOperator epochs) {
        this(config, epochs, System::nanoTime);
    }

    /** @param nanos a clock, in nanoseconds from any moment */
    CheckpointCadence(CheckpointConfig config, LongUnaryOperator epochs, LongSupplier nanos) {
        this.config = config;
        this.epochs = epochs;
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
        boolean steps = config.every().isDue(report.step(), epochs.applyAsLong(report.step()));
        boolean time =
                config.minutes() > 0 && nanos.getAsLong() - lastNanos >= TimeUnit.MINUTES.toNanos(config.minutes());
        if (control != null && (steps || time)) {
            control.requestCheckpoint();
        }
    }
}
