package dev.octet.trainer.optimizer;

import java.util.OptionalDouble;

/**
 * torch's schedules (torch/optim/lr_scheduler.py, 2.13): rates, and the first betas of those that cycle momentum. The first step has number 0. Beta2 stays the
 * optimizer's.
 */
final class TorchRates {
    private static final String GAMMA = "gamma";
    private static final String TOTAL = "total_iters";
    private static final String MAX_LR = "max_lr";

    private TorchRates() {}

    static double step(Schedule s, long done) {
        return s.peak() * power(s.numberOf(GAMMA), done / s.wholeOf("step_size"));
    }

    static double multiStep(Schedule s, long done) {
        long passed = s.wholesOf("milestones").stream().filter(m -> m <= done).count();
        return s.peak() * power(s.numberOf(GAMMA), passed);
    }

    static double constant(Schedule s, long done) {
        return done < s.wholeOf(TOTAL) ? s.peak() * s.numberOf("factor") : s.peak();
    }

    static double linear(Schedule s, long done) {
        double start = s.numberOf("start_factor");
        double total = (double) s.wholeOf(TOTAL);
        return s.peak() * (start + (s.numberOf("end_factor") - start) * Math.min(total, (double) done) / total);
    }

    static double exponential(Schedule s, long done) {
        return s.peak() * power(s.number(GAMMA).orElseThrow(), done);
    }

    static double polynomial(Schedule s, long done) {
        double total = (double) s.wholeOf(TOTAL);
        return s.peak() * Math.pow(1 - Math.min(total, (double) done) / total, s.numberOf("power"));
    }

    static double cosine(Schedule s, long done) {
        return cosine(s, done, s.whole("T_max").orElseThrow());
    }

    private static double cosine(Schedule s, long done, long half) {
        double least = s.numberOf("eta_min");
        return least + (s.peak() - least) * (1 + Math.cos(Math.PI * (double) done / (double) half)) / 2;
    }

    private static double power(double factor, long times) {
        return Math.pow(factor, (double) times);
    }

    static double restarts(Schedule s, long done) {
        long length = s.whole("T_0").orElseThrow();
        long times = s.wholeOf("T_mult");
        if (times == 1) {
            return cosine(s, done % length, length);
        }
        long at = done;
        while (at >= length) {
            at -= length;
            length = length > Long.MAX_VALUE / times ? Long.MAX_VALUE : length * times;
        }
        return cosine(s, at, length);
    }

    // --- CyclicLR

    static double cyclic(Schedule s, long done) {
        double least = s.number("base_lr").orElseThrow();
        return least + (s.number(MAX_LR).orElseThrow() - least) * height(s, done);
    }

    /** How far up the cycle is, from 0 to 1, and how much of that is left in later cycles. */
    private static double height(Schedule s, long done) {
        long rise = s.wholeOf("step_size_up");
        double up = (double) rise;
        double total = up + (double) s.whole("step_size_down").orElse(rise);
        double ratio = up / total;
        double cycle = Math.floor(1 + (double) done / total);
        double x = 1.0 + (double) done / total - cycle;
        double height = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
        return switch (s.choiceOf("mode")) {
            case "triangular2" -> height / Math.pow(2, cycle - 1);
            case "exp_range" -> height * power(s.numberOf(GAMMA), done);
            default -> height;
        };
    }

    // --- OneCycleLR

    /** Which of three values a phase begins or ends with. */
    private enum Bound {
        /** The first rate, the largest momentum. */
        FIRST,
        /** The largest rate, the least momentum. */
        TOP,
        /** The last rate, the largest momentum. */
        LAST
    }

    /** A phase of OneCycleLR, and where in it a step is. */
    private record Phase(Bound from, Bound to, double share) {
        static Phase of(Schedule s, double done) {
            double total = (double) s.whole("total_steps").orElse(s.steps());
            double start = s.numberOf("pct_start");
            double first = start * total - 1;
            if (done <= first) {
                return new Phase(Bound.FIRST, Bound.TOP, done / first);
            }
            if (s.choiceOf("three_phase").equals("false")) {
                return new Phase(Bound.TOP, Bound.LAST, (done - first) / (total - 1 - first));
            }
            double second = 2 * start * total - 2;
            return done <= second
                    ? new Phase(Bound.TOP, Bound.FIRST, (done - first) / (second - first))
                    : new Phase(Bound.FIRST, Bound.LAST, (done - second) / (total - 1 - second));
        }

        double between(double start, double end, String strategy) {
            return strategy.equals("cos")
                    ? end + (start - end) / 2 * (Math.cos(Math.PI * share) + 1)
                    : (end - start) * share + start;
        }
    }

    private static double rateAt(Schedule s, Bound bound) {
        double most = s.number(MAX_LR).orElseThrow();
        double first = most / s.numberOf("div_factor");
        return switch (bound) {
            case FIRST -> first;
            case TOP -> most;
            case LAST -> first / s.numberOf("final_div_factor");
        };
    }

    private static double momentumAt(Schedule s, Bound bound) {
        return s.numberOf(bound == Bound.TOP ? "base_momentum" : "max_momentum");
    }

    static double oneCycle(Schedule s, long done) {
        Phase phase = Phase.of(s, (double) done);
        return phase.between(rateAt(s, phase.from), rateAt(s, phase.to), s.choiceOf("anneal_strategy"));
    }

    /** Beta1 of the step after {@code done} completed ones; empty where momentum stays. */
    static OptionalDouble momentum(Schedule s, long done) {
        if (!s.type().movesMomentum(s.options())) {
            return OptionalDouble.empty();
        }
        if (s.type() == ScheduleType.CYCLIC_LR) {
            double most = s.numberOf("max_momentum");
            return OptionalDouble.of(most - (most - s.numberOf("base_momentum")) * height(s, done));
        }
        Phase phase = Phase.of(s, (double) done);
        return OptionalDouble.of(
                phase.between(momentumAt(s, phase.from), momentumAt(s, phase.to), s.choiceOf("anneal_strategy")));
    }
}
