package dev.octet.trainer.optimizer;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * A learning rate that follows what evaluations measure: torch's ReduceLROnPlateau (2.13) and GreedyLR of transformers (5.18.0, optimization.py), with
 * their options and their order of comparisons. It has a state, which {@link #remembered} gives and {@link #recall} takes; a new one is that of a
 * run without evaluations, at the optimizer's own rate.
 */
public final class MeasuredRate {
    private static final String RATE = "rate";
    private static final String BEST = "best";
    private static final String BAD = "bad";
    private static final String GOOD = "good";
    private static final String COOLDOWN = "cooldown";
    private static final String WARMUP = "warmup";
    private static final String UNTIL_RESET = "until_reset";
    private static final String WINDOW = "window";
    private static final String SUM = "sum";

    private final Schedule schedule;
    private final boolean grows;
    private final boolean most;
    private final Deque<Double> window = new ArrayDeque<>();

    private double rate;
    private double best;
    private long bad;
    private long good;
    private long cooldown;
    private long warmup;
    private long untilReset;
    private double sum;

    private MeasuredRate(Schedule schedule) {
        this.schedule = schedule;
        this.grows = schedule.type() == ScheduleType.GREEDY;
        this.most = schedule.choiceOf("mode").equals("max");
        begin();
    }

    /** The rate of a schedule of that kind; empty where rates follow from the step's number. */
    public static Optional<MeasuredRate> of(Schedule schedule) {
        return schedule.type().isMeasured() ? Optional.of(new MeasuredRate(schedule)) : Optional.empty();
    }

    /** As a new one. */
    private void begin() {
        rate = schedule.peak();
        best = most ? Double.NEGATIVE_INFINITY : Double.POSITIVE_INFINITY;
        bad = 0;
        good = 0;
        cooldown = 0;
        warmup = 0;
        untilReset = grows ? schedule.wholeOf("reset_start") : 0;
        window.clear();
        sum = 0;
    }

    /** The learning rate until the next evaluation. */
    public double rate() {
        return rate;
    }

    /** After an evaluation. */
    public void evaluated(double measure) {
        if (grows) {
            greedy(schedule.choiceOf("smooth").equals("true") ? smoothed(measure) : measure);
        } else {
            plateau(measure);
        }
    }

    private void plateau(double current) {
        if (isBetter(current)) {
            best = current;
            bad = 0;
        } else {
            bad++;
        }
        if (cooldown > 0) {
            cooldown--;
            bad = 0;
        }
        if (bad > schedule.wholeOf("patience")) {
            reduce();
            cooldown = schedule.wholeOf("cooldown");
            bad = 0;
        }
    }

    private void greedy(double current) {
        if (cooldown > 0 || warmup > 0) {
            if (cooldown > 0) {
                cooldown--;
            } else {
                warmup--;
            }
            bad = 0;
            good = 0;
            return;
        }
        if (isBetter(current)) {
            best = current;
            bad = 0;
            good++;
        } else {
            bad++;
            good = 0;
        }
        long patience = schedule.wholeOf("patience");
        if (good > patience) {
            double larger = Math.min(rate / schedule.numberOf("factor"), schedule.numberOf("max_lr"));
            rate = larger - rate > schedule.numberOf("eps") ? larger : rate;
            untilReset = schedule.wholeOf("reset_start");
            warmup = schedule.wholeOf("warmup_evaluations");
            good = 0;
        } else if (bad > patience) {
            reduce();
            // the cooldown begins even where the rate was set back just now
            boolean least = !(rate > schedule.numberOf("min_lr"));
            if (least && --untilReset <= 0) {
                begin();
            }
            cooldown = schedule.wholeOf("cooldown");
            bad = 0;
        }
    }

    private boolean isBetter(double current) {
        double threshold = schedule.numberOf("threshold");
        if (schedule.choiceOf("threshold_mode").equals("rel")) {
            return most ? current > best * (1.0 + threshold) : current < best * (1.0 - threshold);
        }
        return most ? current > best + threshold : current < best - threshold;
    }

    private void reduce() {
        double smaller = Math.max(rate * schedule.numberOf("factor"), schedule.numberOf("min_lr"));
        rate = rate - smaller > schedule.numberOf("eps") ? smaller : rate;
    }

    /** Mean of the last {@code window_size} measures. */
    private double smoothed(double measure) {
        window.addLast(measure);
        sum += measure;
        if (window.size() > schedule.wholeOf("window_size")) {
            sum -= window.removeFirst();
        }
        return sum / window.size();
    }

    /** Its state, for checkpoints: numbers as {@link Double#toString} writes them, which read back as the same. */
    public Map<String, String> remembered() {
        Map<String, String> all = new TreeMap<>();
        all.put(RATE, Double.toString(rate));
        all.put(BEST, Double.toString(best));
        all.put(BAD, Long.toString(bad));
        all.put(GOOD, Long.toString(good));
        all.put(COOLDOWN, Long.toString(cooldown));
        all.put(WARMUP, Long.toString(warmup));
        all.put(UNTIL_RESET, Long.toString(untilReset));
        all.put(SUM, Double.toString(sum));
        all.put(WINDOW, window.stream().map(String::valueOf).collect(Collectors.joining(" ")));
        return all;
    }

    /**
     * Goes back to a state.
     *
     * @param state as {@link #remembered} gave it; of a run without evaluations where it is empty
     * @throws NumberFormatException when a value is no number
     */
    public void recall(Map<String, String> state) {
        begin();
        if (state.isEmpty()) {
            return;
        }
        rate = Double.parseDouble(state.getOrDefault(RATE, ""));
        best = Double.parseDouble(state.getOrDefault(BEST, ""));
        bad = Long.parseLong(state.getOrDefault(BAD, ""));
        good = Long.parseLong(state.getOrDefault(GOOD, ""));
        cooldown = Long.parseLong(state.getOrDefault(COOLDOWN, ""));
        warmup = Long.parseLong(state.getOrDefault(WARMUP, ""));
        untilReset = Long.parseLong(state.getOrDefault(UNTIL_RESET, ""));
        sum = Double.parseDouble(state.getOrDefault(SUM, ""));
        for (String each : state.getOrDefault(WINDOW, "").split(" ", -1)) {
            if (!each.isEmpty()) {
                window.addLast(Double.parseDouble(each));
            }
        }
    }
}
