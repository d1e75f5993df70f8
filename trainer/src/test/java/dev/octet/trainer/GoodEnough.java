package dev.octet.trainer;

import dev.octet.trainer.hook.RunControl;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.TrainingHook;
import org.jspecify.annotations.Nullable;

/** Ends a run when an evaluation is good enough. */
final class GoodEnough implements TrainingHook {
    private final double loss;
    private @Nullable RunControl control;

    GoodEnough(double loss) {
        this.loss = loss;
    }

    @Override
    public void runStarted(RunStart start, RunControl runControl) {
        control = runControl;
    }

    @Override
    public void evaluated(EvaluationReport report) {
        if (report.loss() < loss && control != null) {
            control.stop(RunEnd.Reason.INTERRUPTED, "good enough at step " + report.step());
        }
    }
}
