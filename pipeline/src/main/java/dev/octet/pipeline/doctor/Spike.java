package dev.octet.pipeline.doctor;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A stretch of a run whose loss lies above a band around what came before it. The band is robust: median plus six scaled median absolute
 * deviations of the twenty steps before, at least a tenth of the median, so that a noisy run has no spikes and a quiet one none from rounding.
 *
 * @param first step of the stretch
 * @param last step of the stretch
 * @param peak the highest loss; infinite when a loss was not finite
 * @param before the median loss before it
 * @param recovers whether the loss came back into the band before the run ended
 */
public record Spike(long first, long last, double peak, double before, boolean recovers) {
    /** So many steps before decide what is usual. */
    private static final int WINDOW = 20;

    /** With fewer steps before it nothing is usual yet. */
    private static final int LEAST = 5;

    /** A standard deviation is so many median absolute deviations, of normally distributed numbers. */
    static final double SIGMA_OF_MAD = 1.4826;

    private static final double SIGMAS = 6;
    private static final double LEAST_RISE = 0.1;

    /** All spikes of a run, in order. A loss that is not finite is one. */
    static List<Spike> in(Course course) {
        List<Course.Point> points = course.points();
        double[] losses = course.losses();
        List<Spike> spikes = new ArrayList<>();
        int start = 0; // what is usual is learnt anew after a spike
        int i = 0;
        while (i < losses.length) {
            double[] usual = Arrays.stream(losses, Math.max(start, i - WINDOW), i)
                    .filter(Double::isFinite)
                    .toArray();
            boolean known = usual.length >= LEAST;
            double middle = Course.median(usual);
            double band = known ? middle + rise(usual, middle) : Double.POSITIVE_INFINITY;
            if (Double.isFinite(losses[i]) && losses[i] <= band) {
                i++;
                continue;
            }
            int end = i;
            double peak = 0;
            while (end < losses.length && !(Double.isFinite(losses[end]) && losses[end] <= band)) {
                peak = Double.isFinite(losses[end]) ? Math.max(peak, losses[end]) : Double.POSITIVE_INFINITY;
                end++;
            }
            spikes.add(new Spike(points.get(i).step(), points.get(end - 1).step(), peak, middle, end < losses.length));
            start = known ? Math.max(start, i - WINDOW) : end;
            i = end;
        }
        return List.copyOf(spikes);
    }

    private static double rise(double[] usual, double middle) {
        double deviation = Course.median(
                Arrays.stream(usual).map(x -> Math.abs(x - middle)).toArray());
        return Math.max(SIGMAS * SIGMA_OF_MAD * deviation, LEAST_RISE * Math.abs(middle));
    }

    /** Whether two spikes are at the same steps, give or take one. */
    boolean meets(Spike other) {
        return first <= other.last + 1 && other.first <= last + 1;
    }
}
