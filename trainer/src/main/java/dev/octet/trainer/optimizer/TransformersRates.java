package dev.octet.trainer.optimizer;

/** Formulas of transformers' schedules (optimization.py, 5.18) that are longer than a line of {@link ScheduleType}: factors of the optimizer's rate. */
final class TransformersRates {
    private TransformersRates() {}

    /** Steps after the warm-up. */
    private static double left(Schedule s) {
        return Math.max(1, s.steps() - s.warmup());
    }

    /** From 1 down to 0 and so on, {@code num_cycles} times while {@code progress} goes from 0 to 1. */
    private static double wave(Schedule s, double progress) {
        return 0.5 * (1 + Math.cos(Math.PI * s.numberOf("num_cycles") * 2.0 * progress));
    }

    static double linear(Schedule s, long done) {
        return Math.max(0, (s.steps() - done) / left(s));
    }

    static double cosine(Schedule s, long done) {
        return Math.max(0, wave(s, ((double) done - s.warmup()) / left(s)));
    }

    static double inverseSqrt(Schedule s, long done) {
        return 1 / Math.sqrt((done + (timescale(s) - s.warmup())) / timescale(s));
    }

    static double cosineToLeast(Schedule s, long done) {
        return Math.max(0, above(least(s), wave(s, ((double) done - s.warmup()) / left(s))));
    }

    static double restarts(Schedule s, long done) {
        double progress = (done - s.warmup()) / left(s);
        if (progress >= 1) {
            return 0;
        }
        return Math.max(0, 0.5 * (1 + Math.cos(Math.PI * (s.wholeOf("num_cycles") * progress % 1.0))));
    }

    static double polynomial(Schedule s, long done) {
        double end = s.numberOf("lr_end");
        if (done > s.steps()) {
            return end / s.peak();
        }
        double remaining = s.steps() == s.warmup() ? 1 : 1 - (done - s.warmup()) / (double) (s.steps() - s.warmup());
        return ((s.peak() - end) * Math.pow(remaining, s.numberOf("power")) + end) / s.peak();
    }

    private static double timescale(Schedule s) {
        return s.whole("timescale").orElse(s.warmup() > 0 ? s.warmup() : 10_000);
    }

    /** The least factor. */
    private static double least(Schedule s) {
        return s.number("min_lr").isPresent()
                ? s.number("min_lr").getAsDouble() / s.peak()
                : s.number("min_lr_rate").orElse(0);
    }

    private static double above(double least, double factor) {
        return factor * (1 - least) + least;
    }

    static double cosineAhead(Schedule s, long done) {
        if (done < s.warmup()) {
            double first = s.number("warmup_lr_rate").orElse(-1);
            return first < 0
                    ? (done + 1.0) / Math.max(1, s.warmup())
                    : first + (1 - first) * done / Math.max(1, s.warmup() - 1);
        }
        return Math.max(0, above(least(s), wave(s, (done - s.warmup() + 1.0) / left(s))));
    }

    static double stable(Schedule s, long done) {
        double least = s.numberOf("min_lr_ratio");
        long decay = s.wholeOf("num_decay_steps");
        long stable = s.whole("num_stable_steps").orElse(s.steps() - s.warmup() - decay);
        if (done < s.warmup()) {
            double progress = (double) done / Math.max(1, s.warmup());
            double factor = switch (s.choiceOf("warmup_type")) {
                case "cosine" -> 0.5 * (1 - Math.cos(Math.PI * progress));
                case "1-sqrt" -> 1 - Math.sqrt(1 - progress);
                default -> progress;
            };
            return Math.max(0, above(least, factor));
        }
        if (done < s.warmup() + stable) {
            return 1;
        }
        if (done < s.warmup() + stable + decay) {
            double progress = (double) (done - s.warmup() - stable) / Math.max(1, decay);
            double factor = switch (s.choiceOf("decay_type")) {
                case "linear" -> 1 - progress;
                case "1-sqrt" -> 1 - Math.sqrt(progress);
                default -> wave(s, progress);
            };
            return Math.max(0, above(least, factor));
        }
        return least;
    }
}
