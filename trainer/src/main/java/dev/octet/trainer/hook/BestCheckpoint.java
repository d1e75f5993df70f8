package dev.octet.trainer.hook;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.config.CheckpointConfig.Best;
import java.util.Map;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/** Asks for a checkpoint after each evaluation that is the best so far, and says which that is. */
public final class BestCheckpoint implements TrainingHook {
    /** Number of a run's checkpoints that says which step is the best up to there. */
    public static final String IN_CHECKPOINTS = "hook.BestCheckpoint.step";

    private static final String STEP = "step";
    private static final String MEASURE = "measure";

    private final Best by;
    private @Nullable RunControl control;
    private long step;
    private double measure;

    /** @param by what is compared */
    public BestCheckpoint(Best by) {
        this.by = by;
        this.measure = by.worst();
    }

    @Override
    public void runStarted(RunStart start, RunControl runControl) {
        control = runControl;
    }

    @Override
    public void evaluated(EvaluationReport report) {
        double found = report.measure(by.metric())
                .orElseThrow(() -> new InvalidOptionException(
                        "evaluations do not measure " + by.metric(),
                        "checkpoint: {best: " + by.metric() + "}",
                        "write best: loss"));
        if (report.step() > 0 && by.isBetter(found, measure)) { // before the first step nothing is trained
            step = report.step();
            measure = found;
            if (control != null) {
                control.requestCheckpoint();
            }
        }
    }

    /** The best step so far; empty before the first evaluation. */
    public OptionalLong step() {
        return step == 0 ? OptionalLong.empty() : OptionalLong.of(step);
    }

    @Override
    public Map<String, String> remembered() {
        return step == 0 ? Map.of() : Map.of(STEP, Long.toString(step), MEASURE, Double.toString(measure));
    }

    @Override
    public void recall(Map<String, String> remembered) {
        step = remembered.isEmpty() ? 0 : Long.parseLong(remembered.getOrDefault(STEP, ""));
        measure = remembered.isEmpty() ? by.worst() : Double.parseDouble(remembered.getOrDefault(MEASURE, ""));
    }
}
