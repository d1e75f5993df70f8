package dev.octet.trainer.optimizer;

import static dev.octet.trainer.optimizer.ScheduleOption.below1;
import static dev.octet.trainer.optimizer.ScheduleOption.choice;
import static dev.octet.trainer.optimizer.ScheduleOption.number;
import static dev.octet.trainer.optimizer.ScheduleOption.share;
import static dev.octet.trainer.optimizer.ScheduleOption.whole;
import static dev.octet.trainer.optimizer.ScheduleOption.wholes;

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
 * their first iteration, so a warm-up has its least rate twice. {@code delayed: false} leaves that step out. Those of torch (2.13) are computed from
 * the step's number, where torch multiplies the rate of the step before: they agree but for the last places.
 */
@SuppressWarnings("ImmutableEnumChecker") // formulas without state
public enum ScheduleType {
    /** Constant after the warm-up. transformers: {@code constant_with_warmup}, and {@code constant} without a warm-up. */
    CONSTANT("constant", Warmup.YES, Length.ANY, List.of(), (_, _) -> 1),
    /** Linear decay to zero. */
    LINEAR("linear", Warmup.YES, Length.RUN, List.of(), TransformersRates::linear),
    /** Cosine decay: half a period to zero, or {@code num_cycles} periods. */
    COSINE("cosine", Warmup.YES, Length.RUN, List.of(number("num_cycles", 0.5)), TransformersRates::cosine),
    /** Half a period of a cosine to zero, {@code num_cycles} times from the top. */
    COSINE_WITH_RESTARTS(
            "cosine_with_restarts",
            Warmup.YES,
            Length.RUN,
            List.of(whole("num_cycles", 1, 1)),
            TransformersRates::restarts),
    /** Decay to {@code lr_end} by a power of what is left of the run. */
    POLYNOMIAL(
            "polynomial",
            Warmup.YES,
            Length.RUN,
            List.of(number("lr_end", 1e-7), number("power", 1)),
            TransformersRates::polynomial),
    /** One over the square root of the steps since the warm-up, in units of {@code timescale}. */
    INVERSE_SQRT(
            "inverse_sqrt", Warmup.YES, Length.ANY, List.of(whole("timescale", 1)), TransformersRates::inverseSqrt),
    /** Cosine decay to {@code min_lr}, or to {@code min_lr_rate} of the highest. */
    COSINE_WITH_MIN_LR(
            "cosine_with_min_lr",
            Warmup.YES,
            Length.RUN,
            List.of(number("min_lr"), share("min_lr_rate"), number("num_cycles", 0.5)),
            TransformersRates::cosineToLeast),
    /** The same, one step ahead, with a warm-up that begins at {@code warmup_lr_rate} or one step above zero. */
    COSINE_WARMUP_WITH_MIN_LR(
            "cosine_warmup_with_min_lr",
            Warmup.OWN,
            Length.RUN,
            List.of(number("min_lr"), share("min_lr_rate"), share("warmup_lr_rate"), number("num_cycles", 0.5)),
            TransformersRates::cosineAhead),
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
            TransformersRates::stable),
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
            DeepSpeedRates::warmup),
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
            DeepSpeedRates::warmupDecay),
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
            DeepSpeedRates::warmupCosine),
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
            DeepSpeedRates::rangeTest),
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
            (s, _) -> s.peak()),
    /** torch: times {@code gamma} every {@code step_size} steps. */
    STEP_LR("StepLR", Warmup.NO, Length.ANY, List.of(whole("step_size", 1), number("gamma", 0.1)), TorchRates::step),
    /** torch: times {@code gamma} at each of the steps {@code milestones}. */
    MULTI_STEP_LR(
            "MultiStepLR",
            Warmup.NO,
            Length.ANY,
            List.of(wholes("milestones", 0), number("gamma", 0.1)),
            TorchRates::multiStep),
    /** torch: a part of the rate for {@code total_iters} steps, then all of it. */
    CONSTANT_LR(
            "ConstantLR",
            Warmup.NO,
            Length.ANY,
            List.of(share("factor", 1.0 / 3), whole("total_iters", 1, 5)),
            TorchRates::constant),
    /** torch: from one part of the rate to another over {@code total_iters} steps. */
    LINEAR_LR(
            "LinearLR",
            Warmup.NO,
            Length.ANY,
            List.of(share("start_factor", 1.0 / 3), share("end_factor", 1), whole("total_iters", 1, 5)),
            TorchRates::linear),
    /** torch: times {@code gamma} at each step. */
    EXPONENTIAL_LR("ExponentialLR", Warmup.NO, Length.ANY, List.of(number("gamma")), TorchRates::exponential),
    /** torch: to zero over {@code total_iters} steps, by a power of what is left of them. */
    POLYNOMIAL_LR(
            "PolynomialLR",
            Warmup.NO,
            Length.ANY,
            List.of(whole("total_iters", 1, 5), number("power", 1)),
            TorchRates::polynomial),
    /** torch: half a period of a cosine to {@code eta_min} over {@code T_max} steps, then back. */
    COSINE_ANNEALING_LR(
            "CosineAnnealingLR",
            Warmup.NO,
            Length.ANY,
            List.of(whole("T_max", 1), number("eta_min", 0)),
            TorchRates::cosine),
    /** torch: half a period of a cosine from the top again and again, each {@code T_mult} times as long as the one before. */
    COSINE_ANNEALING_WARM_RESTARTS(
            "CosineAnnealingWarmRestarts",
            Warmup.NO,
            Length.ANY,
            List.of(whole("T_0", 1), whole("T_mult", 1, 1), number("eta_min", 0)),
            TorchRates::restarts),
    /** torch: from {@code base_lr} to {@code max_lr} and back, for ever; momentum the other way round. */
    CYCLIC_LR(
            "CyclicLR",
            Warmup.NO,
            Length.ANY,
            List.of(
                    number("base_lr"),
                    number("max_lr"),
                    whole("step_size_up", 1, 2000),
                    whole("step_size_down", 1),
                    choice("mode", "triangular", "triangular2", "exp_range"),
                    number("gamma", 1),
                    choice("cycle_momentum", "true", "false"),
                    share("base_momentum", 0.8),
                    share("max_momentum", 0.9)),
            TorchRates::cyclic),
    /** torch: from {@code max_lr / div_factor} to {@code max_lr}, then far down; momentum the other way round. */
    ONE_CYCLE_LR(
            "OneCycleLR",
            Warmup.NO,
            Length.UNLESS_TOTAL,
            List.of(
                    number("max_lr"),
                    whole("total_steps", 1),
                    share("pct_start", 0.3),
                    choice("anneal_strategy", "cos", "linear"),
                    choice("cycle_momentum", "true", "false"),
                    share("base_momentum", 0.85),
                    share("max_momentum", 0.95),
                    number("div_factor", 25),
                    number("final_div_factor", 1e4),
                    choice("three_phase", "false", "true")),
            TorchRates::oneCycle);

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
        /** It does unless {@code total_num_steps} or {@code total_steps} is written. */
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

    /**
     * Whether it moves the first beta of Adam, too.
     *
     * @param written options
     */
    public boolean movesMomentum(Map<String, String> written) {
        String key = "cycle_momentum";
        return option(key).isPresent() && !"false".equals(written.get(key));
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
            case UNLESS_TOTAL ->
                s.whole("total_num_steps").isEmpty() && s.whole("total_steps").isEmpty();
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
}
