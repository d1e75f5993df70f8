package dev.octet.pipeline.doctor;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * What two curves say: that of a run in FP8 and that of a baseline on the same batches.
 *
 * <p>The gap of a step is by how much the loss of the run is above that of the baseline, as a share of the latter, or of a tenth of what the
 * baseline began with where that is more: a loss of 0.02 in place of 0.01 is no mismatch after one of 5. It is smoothed by a running median
 * over a twentieth of the steps (5 to 25). The run departs from the baseline where the smoothed gap stays above the threshold until the end.
 *
 * @param symptom what it comes down to
 * @param onset the step from which on something is wrong; 0 when nothing is
 * @param steps compared
 * @param gap the smoothed gap at the end, as a share of the baseline's loss; NaN when it is not finite
 * @param threshold what the gap may be: {@link #LEAST_GAP}, or three times its scatter where that is more
 * @param spikes of the run
 * @param baselineSpikes of the baseline
 */
public record Triage(
        Symptom symptom,
        long onset,
        int steps,
        double gap,
        double threshold,
        List<Spike> spikes,
        List<Spike> baselineSpikes) {
    /** With fewer steps nothing is said. */
    public static final int LEAST_STEPS = 10;

    /** Runs of equal quality stay below it: a hundredth of the loss. */
    public static final double LEAST_GAP = 0.01;

    /** A departure within so many steps, or {@link #EARLY_SHARE} of the run, is one from the first steps. */
    private static final long EARLY = 10;

    private static final double EARLY_SHARE = 0.05;
    private static final int SMOOTHED_PARTS = 20;
    private static final int NARROWEST = 5;
    private static final int WIDEST = 25;
    private static final double SCATTERS = 3;

    /** A loss below this share of the first ones counts as that share. */
    private static final double SMALL = 0.1;

    /** What share of the threshold a growing gap begins at. */
    private static final double BEGINNING = 1.0 / 3;

    public Triage {
        spikes = List.copyOf(spikes);
        baselineSpikes = List.copyOf(baselineSpikes);
    }

    /**
     * Compares the steps that both have.
     *
     * @param run in FP8
     * @param baseline the same steps in BF16 or F32
     * @throws IllegalArgumentException when they share fewer than {@link #LEAST_STEPS} steps
     */
    public static Triage of(Course run, Course baseline) {
        Course ours = run.sharedWith(baseline);
        Course theirs = baseline.sharedWith(run);
        if (ours.size() < LEAST_STEPS) {
            throw new IllegalArgumentException(ours.size() + " shared steps");
        }
        double[] gaps = gaps(ours, theirs);
        double[] smooth = smoothed(gaps);
        double threshold = Math.max(LEAST_GAP, SCATTERS * scatter(gaps, smooth));
        Judgement judgement = new Judgement(ours, theirs, smooth, threshold);
        Symptom symptom = judgement.symptom();
        return new Triage(
                symptom,
                symptom == Symptom.NONE ? 0 : judgement.onset(symptom),
                ours.size(),
                smooth[smooth.length - 1],
                threshold,
                judgement.spikes,
                judgement.theirSpikes);
    }

    /**
     * Where a run looks ill by itself, without a baseline: its first spike or loss that is not finite. Empty when it looks well, which says
     * nothing of a mismatch.
     */
    public static Optional<Spike> suspect(Course run) {
        return Spike.in(run).stream().findFirst();
    }

    /** The smoothed gap of a run at a step, or the nearest one before it that both have; NaN before all. */
    public static double gapAt(Course run, Course baseline, long step) {
        Course ours = run.sharedWith(baseline).between(1, step);
        Course theirs = baseline.sharedWith(ours);
        if (ours.size() < LEAST_STEPS) {
            return Double.NaN;
        }
        double[] smooth = smoothed(gaps(ours, theirs));
        return smooth[smooth.length - 1];
    }

    /** The gap of each step; infinite where only the run is not finite. */
    private static double[] gaps(Course ours, Course theirs) {
        double[] gaps = new double[ours.size()];
        double least = SMALL
                * Course.median(theirs.points().stream()
                        .limit(LEAST_STEPS)
                        .mapToDouble(Course.Point::loss)
                        .filter(Double::isFinite)
                        .map(Math::abs)
                        .toArray());
        double smallest = least > 0 ? least : Double.MIN_NORMAL;
        for (int i = 0; i < gaps.length; i++) {
            double a = ours.points().get(i).loss();
            double b = theirs.points().get(i).loss();
            gaps[i] = Double.isFinite(a)
                    ? Double.isFinite(b) ? (a - b) / Math.max(Math.abs(b), smallest) : 0
                    : Double.isFinite(b) ? Double.POSITIVE_INFINITY : 0;
        }
        return gaps;
    }

    private static double[] smoothed(double[] gaps) {
        int width = Math.clamp(gaps.length / SMOOTHED_PARTS, NARROWEST, WIDEST);
        double[] smooth = new double[gaps.length];
        for (int i = 0; i < gaps.length; i++) {
            int from = Math.clamp(i - width / 2, 0, gaps.length - width);
            smooth[i] = Course.median(Arrays.copyOfRange(gaps, from, from + width));
        }
        return smooth;
    }

    /** How far single gaps lie from the smoothed ones, as a standard deviation. */
    private static double scatter(double[] gaps, double[] smooth) {
        double[] off = new double[gaps.length];
        int n = 0;
        for (int i = 0; i < gaps.length; i++) {
            double d = Math.abs(gaps[i] - smooth[i]);
            if (Double.isFinite(d)) {
                off[n++] = d;
            }
        }
        return n == 0 ? 0 : Spike.SIGMA_OF_MAD * Course.median(Arrays.copyOf(off, n));
    }

    /** Weighs what was measured. */
    private static final class Judgement {
        private final Course ours;
        private final double[] smooth;
        private final double threshold;
        private final List<Spike> spikes;
        private final List<Spike> theirSpikes;
        private final boolean baselineEndsIll;

        Judgement(Course ours, Course theirs, double[] smooth, double threshold) {
            this.ours = ours;
            this.smooth = smooth;
            this.threshold = threshold;
            this.spikes = Spike.in(ours);
            this.theirSpikes = Spike.in(theirs);
            this.baselineEndsIll = theirSpikes.stream().anyMatch(s -> !s.recovers());
        }

        Symptom symptom() {
            if (smooth[smooth.length - 1] > threshold && lasts()) {
                return !ours.points().getLast().finite()
                        ? Symptom.NOT_FINITE
                        : isEarly(departure()) ? Symptom.EARLY_MISMATCH : Symptom.LATE_DIVERGENCE;
            }
            if (baselineEndsIll && spikes.stream().anyMatch(s -> !s.recovers())) {
                return Symptom.SHARED_DIVERGENCE;
            }
            if (!own().isEmpty()) {
                return Symptom.OWN_SPIKE;
            }
            return spikes.isEmpty() ? Symptom.NONE : Symptom.SHARED_SPIKE;
        }

        long onset(Symptom symptom) {
            return switch (symptom) {
                case EARLY_MISMATCH, LATE_DIVERGENCE -> departure();
                case NOT_FINITE -> Math.min(firstNotFinite(), departure());
                case OWN_SPIKE -> own().getFirst().first();
                case SHARED_SPIKE, SHARED_DIVERGENCE -> spikes.getFirst().first();
                case NONE, REPLAYS, DOWNSTREAM -> 0;
            };
        }

        /** Whether the gap at the end has been above the threshold for longer than the smoothing alone makes it. */
        private boolean lasts() {
            int above = 0;
            while (above < smooth.length && smooth[smooth.length - 1 - above] > threshold) {
                above++;
            }
            return above > NARROWEST || !ours.points().getLast().finite();
        }

        /** Spikes that the baseline has not. */
        private List<Spike> own() {
            List<Spike> own = new ArrayList<>(spikes);
            own.removeIf(s -> theirSpikes.stream().anyMatch(s::meets));
            return own;
        }

        private long firstNotFinite() {
            return ours.points().stream()
                    .filter(p -> !p.finite())
                    .mapToLong(Course.Point::step)
                    .findFirst()
                    .orElse(0);
        }

        /** The first step of those at the end whose gap is above the threshold, or nearly: a gap that grows began before it was certain. */
        private long departure() {
            int i = smooth.length;
            while (i > 0 && smooth[i - 1] > BEGINNING * threshold) {
                i--;
            }
            return ours.points().get(Math.min(i, smooth.length - 1)).step();
        }

        private boolean isEarly(long step) {
            long first = ours.points().getFirst().step();
            return step - first < Math.max(EARLY, EARLY_SHARE * ours.size());
        }
    }
}
