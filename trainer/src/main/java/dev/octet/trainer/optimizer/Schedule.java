package dev.octet.trainer.optimizer;

import dev.octet.formats.error.InvalidOptionException;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.TreeMap;

/**
 * The learning rate over a run.
 *
 * @param type its formula
 * @param options of {@link ScheduleType#options}, those that are written; numbers as {@link Double#parseDouble} reads them, several of them with commas between
 * @param peak learning rate of the optimizer
 * @param warmup steps of the warm-up, where the type has one
 * @param steps of the whole run
 */
public record Schedule(ScheduleType type, Map<String, String> options, double peak, long warmup, long steps) {
    /** Steps looked at for the highest rate. */
    private static final long SAMPLED = 100_000;

    private static final String WHERE = "schedule: {type: ";
    private static final String MAX_LR = "max_lr";

    public Schedule {
        options = Collections.unmodifiableMap(new TreeMap<>(options));
        requireOptions(type, options, peak);
        if (type == ScheduleType.ONE_CYCLE_LR) {
            String written = options.get("total_steps");
            String start = options.get("pct_start");
            requireCycle(
                    steps,
                    written == null ? steps : Long.parseLong(written),
                    start == null ? 0.3 : Double.parseDouble(start));
        }
    }

    /** Refuses what torch's OneCycleLR fails with: steps behind its end, and a rise of one step, whose share of itself is 0 / 0. */
    private static void requireCycle(long steps, long total, double start) {
        ScheduleType type = ScheduleType.ONE_CYCLE_LR;
        if (steps > total) {
            throw refused(
                    type,
                    "the cycle has " + total + " steps and the run " + steps + ", and torch fails behind its end",
                    "give total_steps: " + steps + ", or leave it out");
        }
        if (start * total == 1) {
            throw refused(
                    type,
                    "the rise of pct_start " + start + " of " + total + " steps is one step, and torch divides by zero",
                    "give another pct_start");
        }
    }

    /** A schedule with the defaults of its options. */
    public static Schedule of(ScheduleType type, double peak, long warmup, long steps) {
        return new Schedule(type, Map.of(), peak, warmup, steps);
    }

    /** The learning rate of the step after {@code done} completed steps. */
    public double rate(long done) {
        return type.rate(this, done);
    }

    /** The highest rate of the run. */
    public double highest() {
        long every = Math.max(1, steps / SAMPLED);
        double highest = 0;
        for (long done = 0; done < steps; done += every) {
            highest = Math.max(highest, rate(done));
        }
        return highest;
    }

    /** Beta1 of the step after {@code done} completed steps; empty where the schedule leaves it as it is. */
    public OptionalDouble momentum(long done) {
        return type == ScheduleType.ONE_CYCLE ? OneCycle.momentum(this, done) : TorchRates.momentum(this, done);
    }

    /** Whether beta1 moves; with DeepSpeed's OneCycle beta2 is its 0.99 instead of the optimizer's. */
    public boolean movesMomentum() {
        return type.movesMomentum(options);
    }

    /** What holds for the step after {@code done} completed steps. */
    public StepRate at(long done) {
        return new StepRate(rate(done), momentum(done));
    }

    /** The optimizer of a run with this schedule. */
    public Optimizer of(Optimizer optimizer) {
        if (!movesMomentum() || !(optimizer instanceof Optimizer.Adam a)) {
            return optimizer;
        }
        return type == ScheduleType.ONE_CYCLE ? Optimizer.Cycled.of(a) : new Optimizer.Cycled(a);
    }

    /** Whether rates would be others in a run of another number of steps. */
    public boolean dependsOnSteps() {
        return type.dependsOnSteps(this);
    }

    /**
     * Refuses options that are missing or do not fit each other.
     *
     * @param peak learning rate of the optimizer
     * @throws InvalidOptionException as transformers or DeepSpeed refuse them
     */
    public static void requireOptions(ScheduleType type, Map<String, String> options, double peak) {
        switch (type) {
            case POLYNOMIAL -> {
                double end = Double.parseDouble(options.getOrDefault("lr_end", "1e-7"));
                if (!(peak > end)) {
                    throw refused(
                            type,
                            "lr_end " + end + " is not below the learning rate of " + peak,
                            "give a smaller lr_end, or a larger optimizer.lr");
                }
            }
            case COSINE_WITH_MIN_LR, COSINE_WARMUP_WITH_MIN_LR -> {
                if (options.containsKey("min_lr") == options.containsKey("min_lr_rate")) {
                    throw refused(
                            type,
                            options.containsKey("min_lr")
                                    ? "min_lr and min_lr_rate are both given"
                                    : "neither min_lr nor min_lr_rate is given",
                            "give one of them: min_lr: 1.0e-5, or min_lr_rate: 0.1 for a tenth of optimizer.lr");
                }
                if (options.containsKey("min_lr") && peak == 0) {
                    throw refused(type, "min_lr needs a learning rate above 0", "give min_lr_rate, or optimizer.lr");
                }
            }
            case WARMUP_STABLE_DECAY -> require(type, options, "num_decay_steps", "steps of the decay");
            case ONE_CYCLE -> {
                require(type, options, "cycle_min_lr", "lower bound of the cycle");
                require(type, options, "cycle_max_lr", "upper bound of the cycle");
            }
            case STEP_LR -> require(type, options, "step_size", "steps from one decay to the next");
            case MULTI_STEP_LR -> require(type, options, "milestones", "steps of the decays");
            case EXPONENTIAL_LR -> require(type, options, "gamma", "factor of each step");
            case COSINE_ANNEALING_LR -> require(type, options, "T_max", "steps to the least rate");
            case COSINE_ANNEALING_WARM_RESTARTS -> require(type, options, "T_0", "steps to the first restart");
            case CYCLIC_LR -> {
                require(type, options, "base_lr", "lower bound of the cycle");
                require(type, options, MAX_LR, "upper bound of the cycle");
            }
            case ONE_CYCLE_LR -> {
                require(type, options, MAX_LR, "upper bound of the cycle");
                for (String divisor : List.of("div_factor", "final_div_factor")) {
                    if (Double.parseDouble(options.getOrDefault(divisor, "1")) == 0) {
                        throw refused(type, divisor + " is 0, and torch divides by it", "give a number above 0");
                    }
                }
            }
            case LINEAR_LR -> {
                if (Double.parseDouble(options.getOrDefault("start_factor", "1")) == 0) {
                    throw refused(type, "start_factor is 0, and torch demands more", "give a number above 0");
                }
            }
            case CONSTANT,
                    CONSTANT_LR,
                    POLYNOMIAL_LR,
                    LINEAR,
                    COSINE,
                    COSINE_WITH_RESTARTS,
                    INVERSE_SQRT,
                    WARMUP_LR,
                    WARMUP_DECAY_LR,
                    WARMUP_COSINE_LR,
                    LR_RANGE_TEST,
                    REDUCE_LR_ON_PLATEAU,
                    GREEDY -> {}
        }
    }

    private static void require(ScheduleType type, Map<String, String> options, String name, String what) {
        if (!options.containsKey(name)) {
            throw refused(type, name + " is missing, the " + what, "add " + name + ": ... to schedule");
        }
    }

    private static InvalidOptionException refused(ScheduleType type, String what, String fix) {
        return new InvalidOptionException(what, WHERE + type.key() + "}", fix);
    }

    OptionalDouble number(String name) {
        String value = options.get(name);
        return value == null ? OptionalDouble.empty() : OptionalDouble.of(Double.parseDouble(value));
    }

    OptionalLong whole(String name) {
        String value = options.get(name);
        return value == null ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(value));
    }

    /** What is written for a {@link ScheduleOption.Kind#WHOLES}. */
    List<Long> wholesOf(String name) {
        return Arrays.stream(options.getOrDefault(name, "").split(",", -1))
                .map(Long::valueOf)
                .toList();
    }

    double numberOf(String name) {
        return Double.parseDouble(choiceOf(name));
    }

    long wholeOf(String name) {
        return Long.parseLong(choiceOf(name));
    }

    /** What is written, else the default. */
    String choiceOf(String name) {
        String value = options.get(name);
        return value != null
                ? value
                : type.option(name).orElseThrow().fallback().orElseThrow();
    }
}
