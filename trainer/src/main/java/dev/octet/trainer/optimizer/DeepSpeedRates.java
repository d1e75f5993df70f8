package dev.octet.trainer.optimizer;

import java.util.function.Function;

/** Formulas of DeepSpeed's schedules (runtime/lr_schedules.py, commit edaa722): rates. */
final class DeepSpeedRates {
    private DeepSpeedRates() {}

    /** DeepSpeed's {@code last_batch_iteration} when a step is taken; -1 before its first. */
    private static long iteration(Schedule s, long done) {
        return s.choiceOf("delayed").equals("true") ? done - 1 : done;
    }

    private static long rising(Schedule s) {
        return Math.max(2, s.wholeOf("warmup_num_steps"));
    }

    private static double total(Schedule s) {
        return s.whole("total_num_steps").orElse(s.steps());
    }

    /** How far the warm-up is, from 0 to 1. */
    private static double risen(Schedule s, long it) {
        return s.choiceOf("warmup_type").equals("log")
                ? 1 / Math.log((double) rising(s)) * Math.log(it + 1.0)
                : (double) it / (double) rising(s);
    }

    private static double between(Schedule s, double most, long done, Function<Long, Double> after) {
        double least = s.numberOf("warmup_min_lr");
        long it = iteration(s, done);
        if (it < 0) {
            return least;
        }
        return least + (most - least) * (it < rising(s) ? risen(s, it) : after.apply(it));
    }

    static double warmup(Schedule s, long done) {
        return between(s, s.number("warmup_max_lr").orElse(s.peak()), done, _ -> 1.0);
    }

    static double warmupDecay(Schedule s, long done) {
        return between(
                s,
                s.numberOf("warmup_max_lr"),
                done,
                it -> Math.max(0, (total(s) - it) / Math.max(1.0, total(s) - rising(s))));
    }

    static double warmupCosine(Schedule s, long done) {
        long it = iteration(s, done);
        if (it < 0) {
            return 0;
        }
        if (it < rising(s)) {
            double first = s.numberOf("warmup_min_ratio");
            return s.peak() * (first + risen(s, it) * (1 - first));
        }
        double progress = Math.min(1, (it - rising(s) + 1) / Math.max(1, total(s) - rising(s)));
        double last = s.numberOf("cos_min_ratio");
        return s.peak() * Math.max(0, last + (1 - last) * ((1 + Math.cos(Math.PI * progress)) / 2));
    }

    static double rangeTest(Schedule s, long done) {
        double steps = done / (double) s.wholeOf("lr_range_test_step_size");
        double interval = s.choiceOf("lr_range_test_staircase").equals("true") ? Math.floor(steps) : steps;
        return s.numberOf("lr_range_test_min_lr") * (1 + s.numberOf("lr_range_test_step_rate") * interval);
    }
}
