package dev.octet.trainer.config;

import dev.octet.trainer.optimizer.WeightAveraging;
import dev.octet.trainer.optimizer.WeightAveraging.Kind;
import dev.octet.trainer.yaml.Section;
import java.util.Map;
import java.util.TreeMap;

/** Reads {@code averaging: {ema: {decay: 0.999}, swa: {start: 1000, every: 100}}}. */
final class AveragingConfig {
    private static final double USUAL_DECAY = 0.999;

    private AveragingConfig() {}

    /** Averages by their names. */
    static Map<String, WeightAveraging> read(Section s) {
        Map<String, WeightAveraging> averages = new TreeMap<>();
        for (Kind kind : Kind.values()) {
            if (s.has(kind.label())) {
                averages.put(kind.label(), s.section(kind.label()).read(a -> one(kind, a)));
            }
        }
        return averages;
    }

    private static WeightAveraging one(Kind kind, Section s) {
        double decay = kind == Kind.EMA ? s.number("decay", USUAL_DECAY, Double.MIN_NORMAL, Math.nextDown(1.0)) : 0;
        long start = kind == Kind.EMA
                ? s.whole("start", 0, 0, Integer.MAX_VALUE)
                : s.requiredWhole("start", 0, Integer.MAX_VALUE);
        return new WeightAveraging(kind, decay, start, s.whole("every", 1, 1, Integer.MAX_VALUE));
    }
}
