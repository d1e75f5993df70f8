package dev.octet.trainer.hook;

import dev.octet.trainer.config.DivergenceConfig;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Stops a run whose loss exceeds its running mean by a factor for several steps in a row. Skipped steps do not count. */
public final class DivergenceStop implements TrainingHook {
    /** Decay per step of the running mean: after 50 steps a loss has a third of its weight. */
    private static final double DECAY = 0.98;

    /** Steps before the running mean is reliable. */
    private static final int WARM_UP_STEPS = 10;

    private final DivergenceConfig config;
    private @Nullable RunControl control;
    private double weighted;
    private double weight;
    private long seen;
    private int above;

    /** @param config when to stop */
    public DivergenceStop(DivergenceConfig config) {
        this.config = config;
    }

    @Override
    public void runStarted(RunStart start, RunControl runControl) {
        control = runControl;
    }

    @Override
    public Map<String, String> remembered() {
        return Map.of(
                "weighted", Double.toString(weighted),
                "weight", Double.toString(weight),
                "seen", Long.toString(seen),
                "above", Integer.toString(above));
    }

    @Override
    public void recall(Map<String, String> remembered) {
        weighted = Double.parseDouble(remembered.getOrDefault("weighted", "0"));
        weight = Double.parseDouble(remembered.getOrDefault("weight", "0"));
        seen = Long.parseLong(remembered.getOrDefault("seen", "0"));
        above = Integer.parseInt(remembered.getOrDefault("above", "0"));
    }

    @Override
    public void afterStep(StepReport report) {
        if (config.factor() == 0 || report.skipped()) {
            return;
        }
        double mean = weight == 0 ? Double.NaN : weighted / weight;
        // negated so that a NaN loss counts as high
        boolean high = seen >= WARM_UP_STEPS && !(report.loss() <= config.factor() * mean);
        above = high ? above + 1 : 0;
        if (above >= config.patience() && control != null) {
            control.stop(
                    RunEnd.Reason.DIVERGED,
                    String.format(
                            Locale.ROOT,
                            "loss %.4g is above %s times its running mean %.4g, %d steps in a row",
                            report.loss(),
                            config.factor(),
                            mean,
                            above));
        }
        if (!high) {
            weighted = DECAY * weighted + (1 - DECAY) * report.loss();
            weight = DECAY * weight + (1 - DECAY);
            seen++;
        }
    }
}
