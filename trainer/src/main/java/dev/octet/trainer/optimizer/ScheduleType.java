package dev.octet.trainer.optimizer;

import static dev.octet.trainer.optimizer.ScheduleOption.below1;
import static dev.octet.trainer.optimizer.ScheduleOption.choice;
import static dev.octet.trainer.optimizer.ScheduleOption.number;
import static dev.octet.trainer.optimizer.ScheduleOption.share;
import static dev.octet.trainer.optimizer.ScheduleOption.whole;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * The learning-rate schedules, by the names of the libraries they are from: a formula and its options each. One more is a row here.
 *
 * <p>Those of transformers (optimization.py, 5.18) are factors of the optimizer's rate and rise from 0 over the warm-up. Those of DeepSpeed
 * (runtime/lr_schedules.py, commit edaa722) count iterations from 0 and begin one step late: the optimizer's first step is taken before
 * their first iteration, so a warm-up has its least rate twice. {@code delayed: false} leaves that step out.
 */
@SuppressWarnings("ImmutableEnumChecker") // formulas without state
public enum ScheduleType {
    /** Constant after the warm-up. transformers: {@code constant_with_warmup}, and {@code constant} without a warm-up. */
    CONSTANT("constant", Warmup.YES, Length.ANY, List.of(), (_, _) -> 1),
    /** Linear decay to zero. */
    LINEAR("linear", Warmup.YES, Length.RUN, List.of(), (s, done) -> Math.max(0, (s.steps() - done) / left(s))),
    /** Cosine decay: half a period to zero, or {@code num_cycles} periods. */
    COSINE(
            "cosine",
            Warmup.YES,
            Length.RUN,
            List.of(number("num_cycles", 0.5)),
            (s, done) -> Math.max(0, wave(s, ((double) done - s.warmup()) / left(s)))),
    /** Half a period of a cosine to zero, {@code num_cycles} times from the top. */
    COSINE_WITH_RESTARTS(
            "cosine_with_restarts", Warmup.YES, Length.RUN, List.of(whole("num_cycles", 1, 1)), ScheduleType::restarts),
    /** Decay to {@code lr_end} by a power of what is left of the run. */
    POLYNOMIAL(
            "polynomial",
            Warmup.YES,
            Length.RUN,
            List.of(number("lr_end", 1e-7), number("power", 1)),
            ScheduleType::polynomial),
    /** One over the square root of the steps since the warm-up, in units of {@code timescale}. */
    INVERSE_SQRT(
            "inverse_sqrt",
            Warmup.YES,
            Length.ANY,
            List.of(whole("timescale", 1)),
            (s, done) -> 1 / Math.sqrt((done + (timescale(s) - s.warmup())) / timescale(s))),
    /** Cosine decay to {@code min_lr}, or to {@code min_lr_rate} of the highest. */
    COSINE_WITH_MIN_LR(
            "cosine_with_min_lr",
            Warmup.YES,
            Length.RUN,
            List.of(number("min_lr"), share("min_lr_rate"), number("num_cycles", 0.5)),
            (s, done) -> Math.max(0, above(least(s), wave(s, ((double) done - s.warmup()) / left(s))))),
    /** The same, one step ahead, with a warm-up that begins at {@code warmup_lr_rate} or one step above zero. */
    COSINE_WARMUP_WITH_MIN_LR(
            "cosine_warmup_with_min_lr",
            Warmup.OWN,
            Length.RUN,
            List.of(number("min_lr"), share("min_lr_rate"), share("warmup_lr_rate"), number("num_cycles", 0.5)),
            ScheduleType::cosineAhead),
    /** Constant between a warm-up and a decay of {@code num_decay_steps}, from and to {@code min_lr_ratio}. */
    WARMUP_STABLE_DECAY(
            "warmup_stable_decay",
            Warmup.OWN,
            Length.UNLESS_STABLE,
            List.of(
                    whole("num_decay_steps", 0),
                    whole("num_stable_steps", 0),
                    choice("warmup_type", "linear", "cosine", "1-sqrt"),
                    choice("decay_type", "cosine", "linear", "1-sqrt"),
                    share("min_lr_ratio", 0),
                    number("num_cycles", 0.5)),
            ScheduleType::stable),
    /** DeepSpeed: from {@code warmup_min_lr} to {@code warmup_max_lr}, then constant. */
    WARMUP_LR(
            "WarmupLR",
            Warmup.NO,
            Length.ANY,
            List.of(
                    number("warmup_min_lr", 0),
                    number("warmup_max_lr"),
                    whole("warmup_num_steps", 1, 1000),
                    choice("warmup_type", "log", "linear"),
                    choice("delayed", "true", "false")),
            (s, done) -> between(s, s.number("warmup_max_lr").orElse(s.peak()), done, _ -> 1.0)),
    /** DeepSpeed: as {@link #WARMUP_LR}, then linear to zero at {@code total_num_steps}. */
    WARMUP_DECAY_LR(
            "WarmupDecayLR",
            Warmup.NO,
            Length.UNLESS_TOTAL,
            List.of(
                    whole("total_num_steps", 1),
                    number("warmup_min_lr", 0),
                    number("warmup_max_lr", 0.001),
                    whole("warmup_num_steps", 1, 1000),
                    choice("warmup_type", "log", "linear"),
                    choice("delayed", "true", "false")),
            (s, done) -> between(
                    s,
                    s.numberOf("warmup_max_lr"),
                    done,
                    it -> Math.max(0, (total(s) - it) / Math.max(1.0, total(s) - rising(s))))),
    /** DeepSpeed: a share of the optimizer's rate, from {@code warmup_min_ratio} to 1, then by a cosine to {@code cos_min_ratio}. */
    WARMUP_COSINE_LR(
            "WarmupCosineLR",
            Warmup.NO,
            Length.UNLESS_TOTAL,
            List.of(
                    whole("total_num_steps", 1),
                    share("warmup_min_ratio", 0),
                    whole("warmup_num_steps", 1, 1000),
                    share("cos_min_ratio", 0.0001),
                    choice("warmup_type", "log", "linear"),
                    choice("delayed", "true", "false")),
            ScheduleType::warmupCosine),
    /** DeepSpeed: from {@code cycle_min_lr} to {@code cycle_max_lr} and back, then a decay; momentum the other way round. */
    ONE_CYCLE(
            "OneCycle",
            Warmup.NO,
            Length.ANY,
            List.of(
                    number("cycle_min_lr"),
                    number("cycle_max_lr"),
                    number("decay_lr_rate", 0),
                    whole("cycle_first_step_size", 1, 2000),
                    whole("cycle_second_step_size", 0),
                    whole("cycle_first_stair_count", 0, 0),
                    whole("cycle_second_stair_count", 0),
                    whole("decay_step_size", 0, 0),
                    choice("cycle_momentum", "true", "false"),
                    share("cycle_min_mom", 0.8),
                    share("cycle_max_mom", 0.9),
                    number("decay_mom_rate", 0)),
            OneCycle::rate),
    /** DeepSpeed: rises for ever, to find the rate at which training diverges. */
    LR_RANGE_TEST(
            "LRRangeTest",
            Warmup.NO,
            Length.ANY,
            List.of(
                    number("lr_range_test_min_lr", 1e-3),
                    whole("lr_range_test_step_size", 1, 2000),
                    number("lr_range_test_step_rate", 1),
                    choice("lr_range_test_staircase", "false", "true")),
            ScheduleType::rangeTest),
    /** torch, by transformers' name: smaller by {@code factor} when evaluations no longer get better; see {@link MeasuredRate}. */
    REDUCE_LR_ON_PLATEAU(
            "reduce_lr_on_plateau",
            Warmup.NO,
            Length.ANY,
            List.of(
                    choice("mode", "min", "max"),
                    below1("factor", 0.1),
                    whole("patience", 0, 10),
                    number("threshold", 1e-4),
                    choice("threshold_mode", "rel", "abs"),
                    whole("cooldown", 0, 0),
                    number("min_lr", 0),
                    number("eps", 1e-8)),
            (s, _) -> s.peak()),
    /** transformers' GreedyLR: larger while evaluations get better, smaller when they do not; see {@link MeasuredRate}. */
    GREEDY(
            "greedy",
            Warmup.NO,
            Length.ANY,
            List.of(
                    choice("mode", "min", "max"),
                    below1("factor", 0.95),
                    whole("patience", 0, 10),
                    number("threshold", 1e-6),
                    choice("threshold_mode", "abs", "rel"),
                    whole("cooldown", 0, 0),
                    whole("warmup_evaluations", 0, 0),
                    number("min_lr", 1e-3),
                    number("max_lr", 1.0),
                    number("eps", 1e-8),
                    choice("smooth", "false", "true"),
                    whole("window_size", 1, 50),
                    whole("reset_start", 1, 500)),
            (s, _) -> s.peak());

    /** What happens before the formula counts. */
    private enum Warmup {
        /** A linear rise from 0 over {@code warmup} steps; the formula is a factor of the optimizer's rate. */
        YES,
        /** {@code warmup} steps too, but the formula covers them; it is a factor. */
        OWN,
        /** There is no such number; the formula is the rate. */
        NO
    }

    /** What the formula takes from the run's length. */
    private enum Length {
        /** It needs the number of steps. */
        RUN,
        /** It does not. */
        ANY,
        /** It does unless {@code total_num_steps} is written. */
        UNLESS_TOTAL,
        /** It does unless {@code num_stable_steps} is written. */
        UNLESS_STABLE
    }

    /** From completed steps to a rate, or to a factor of the optimizer's. */
    @FunctionalInterface
    private interface Formula {
        double at(Schedule s, long done);
    }

    private static final Map<String, ScheduleType> BY_KEY = byKey();

    private final String key;
    private final Warmup warmup;
    private final Length length;
    private final List<ScheduleOption> options;
    private final Formula formula;

    ScheduleType(String key, Warmup warmup, Length length, List<ScheduleOption> options, Formula formula) {
        this.key = key;
        this.warmup = warmup;
        this.length = length;
        this.options = List.copyOf(options);
        this.formula = formula;
    }

    private static Map<String, ScheduleType> byKey() {
        Map<String, ScheduleType> all = Arrays.stream(values())
                .collect(Collectors.toMap(ScheduleType::key, Function.identity(), (a, _) -> a, LinkedHashMap::new));
        all.put("constant_with_warmup", CONSTANT);
        return Map.copyOf(all);
    }

    /** Schedules by the names a configuration may give them. */
    public static Map<String, ScheduleType> byName() {
        return BY_KEY;
    }

    /** Its name in a configuration. */
    public String key() {
        return key;
    }

    /** Its options, in the order of its library. */
    public List<ScheduleOption> options() {
        return options;
    }

    /** The option of a name; empty where it has none. */
    public Optional<ScheduleOption> option(String name) {
        return options.stream().filter(o -> o.name().equals(name)).findFirst();
    }

    /** Whether rates follow what evaluations measure; what a schedule says of it is the rate before the first. */
    public boolean isMeasured() {
        return this == REDUCE_LR_ON_PLATEAU || this == GREEDY;
    }

    /** Whether {@code warmup} steps count in it. */
    public boolean hasWarmup() {
        return warmup != Warmup.NO;
    }

    /** Whether rates depend on the number of steps of the run. */
    boolean dependsOnSteps(Schedule s) {
        return switch (length) {
            case RUN -> true;
            case ANY -> false;
            case UNLESS_TOTAL -> s.whole("total_num_steps").isEmpty();
            case UNLESS_STABLE -> s.whole("num_stable_steps").isEmpty();
        };
    }

    /** The learning rate of the step after {@code done} completed ones. */
    double rate(Schedule s, long done) {
        return switch (warmup) {
            case NO -> formula.at(s, done);
            case OWN -> s.peak() * formula.at(s, done);
            case YES -> s.peak() * (done < s.warmup() ? (double) done / Math.max(1, s.warmup()) : formula.at(s, done));
        };
    }

    // --- transformers
    // ---------------------------------------------------------------------------------------------------------------

    /** Steps after the warm-up. */
    private static double left(Schedule s) {
        return Math.max(1, s.steps() - s.warmup());
    }

    /** From 1 down to 0 and so on, {@code num_cycles} times while {@code progress} goes from 0 to 1. */
    private static double wave(Schedule s, double progress) {
        return 0.5 * (1 + Math.cos(Math.PI * s.numberOf("num_cycles") * 2.0 * progress));
    }

    private static double restarts(Schedule s, long done) {
        double progress = (done - s.warmup()) / left(s);
        if (progress >= 1) {
            return 0;
        }
        return Math.max(0, 0.5 * (1 + Math.cos(Math.PI * (s.wholeOf("num_cycles") * progress % 1.0))));
    }

    private static double polynomial(Schedule s, long done) {
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

    private static double cosineAhead(Schedule s, long done) {
        if (done < s.warmup()) {
            double first = s.number("warmup_lr_rate").orElse(-1);
            return first < 0
                    ? (done + 1.0) / Math.max(1, s.warmup())
                    : first + (1 - first) * done / Math.max(1, s.warmup() - 1);
        }
        return Math.max(0, above(least(s), wave(s, (done - s.warmup() + 1.0) / left(s))));
    }

    private static double stable(Schedule s, long done) {
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

    // --- DeepSpeed
    // ------------------------------------------------------------------------------------------------------------------

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

    private static double warmupCosine(Schedule s, long done) {
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

    private static double rangeTest(Schedule s, long done) {
        double steps = done / (double) s.wholeOf("lr_range_test_step_size");
        double interval = s.choiceOf("lr_range_test_staircase").equals("true") ? Math.floor(steps) : steps;
        return s.numberOf("lr_range_test_min_lr") * (1 + s.numberOf("lr_range_test_step_rate") * interval);
    }
}
