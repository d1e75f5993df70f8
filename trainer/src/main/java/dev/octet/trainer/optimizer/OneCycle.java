package dev.octet.trainer.optimizer;

import java.util.OptionalDouble;

/**
 * DeepSpeed's OneCycle (runtime/lr_schedules.py, commit edaa722; Smith, arXiv:1803.09820): rates rise and fall once between two bounds, in a
 * straight line or in stairs, then decay. Momentum, which is beta1 of optimizers that have betas, falls and rises; beta2 is 0.99 meanwhile.
 */
final class OneCycle {
    /** What DeepSpeed sets beta2 to. */
    static final double BETA2 = 0.99;

    private OneCycle() {}

    private static double first(Schedule s) {
        return s.wholeOf("cycle_first_step_size");
    }

    private static double second(Schedule s) {
        return s.whole("cycle_second_step_size").orElse(s.wholeOf("cycle_first_step_size"));
    }

    /** Iterations after the cycle, from 1; 0 within it. DeepSpeed's last iteration is one before the step's. */
    private static double after(Schedule s, long done) {
        double total = first(s) + second(s);
        double last = done - 1.0;
        return last < total ? 0 : last - total + 1;
    }

    /** Where the cycle is between its bounds, 0 to 1. */
    private static double height(Schedule s, long done) {
        double total = first(s) + second(s);
        double ratio = first(s) / total;
        double x = 1 + done / total - Math.floor(1 + done / total);
        boolean rises = x <= ratio;
        long stairs = rises
                ? s.wholeOf("cycle_first_stair_count")
                : s.whole("cycle_second_stair_count").orElse(s.wholeOf("cycle_first_stair_count"));
        if (stairs > 0) {
            double at = done % total;
            double position = at <= first(s) ? at * stairs / first(s) : (total - at) * stairs / second(s);
            return Math.floor(position) / stairs;
        }
        return rises ? x / ratio : (x - 1) / (ratio - 1);
    }

    /** The learning rate of the step after {@code done} completed ones. */
    static double rate(Schedule s, long done) {
        double least = s.numberOf("cycle_min_lr");
        double after = after(s, done);
        if (after == 0) {
            return least + (s.numberOf("cycle_max_lr") - least) * height(s, done);
        }
        long interval = s.wholeOf("decay_step_size");
        return interval == 0 || s.numberOf("decay_lr_rate") == 0
                ? least
                : least / (1 + s.numberOf("decay_lr_rate") * (after / interval));
    }

    /** Beta1 of the step after {@code done} completed ones; empty where momentum stays. The first step has the least momentum. */
    static OptionalDouble momentum(Schedule s, long done) {
        if (s.choiceOf("cycle_momentum").equals("false")) {
            return OptionalDouble.empty();
        }
        double least = s.numberOf("cycle_min_mom");
        double most = s.numberOf("cycle_max_mom");
        if (done == 0) {
            return OptionalDouble.of(least);
        }
        double after = after(s, done);
        if (after == 0) {
            return OptionalDouble.of(most - (most - least) * height(s, done));
        }
        long interval = s.wholeOf("decay_step_size");
        return OptionalDouble.of(
                interval == 0 || s.numberOf("decay_mom_rate") == 0
                        ? most
                        : most * (1 + s.numberOf("decay_mom_rate") * (after / interval)));
    }
}
