package dev.octet.trainer.replay;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * What of a replay's distance from the reference noise explains. Measured by two replays that are healthy by construction:
 * <ul>
 *   <li>F32 with the samples of each micro-batch in reversed order, against the narrow type in the run's order: rounding of the narrow type and
 *       the order of sums;
 *   <li>every operand rounded to the mantissa of its FP8 format, with a power of two for each element, so that nothing is clipped and nothing
 *       underflows: what the format costs whatever the scales.
 * </ul>
 * The floor of a gradient is the larger of the two errors, at least half of the median over all parameters of the step; the same for updates.
 *
 * @param order the first of the two replays
 * @param rounding the second
 * @param losses floor of {@code |loss - reference|} in each step
 * @param gradients floor of each gradient's relative error, for each step by parameter
 * @param updates floor of each update's relative error, by parameter
 */
public record NoiseFloor(
        Replay order,
        Replay rounding,
        List<Double> losses,
        List<Map<String, Double>> gradients,
        Map<String, Double> updates) {
    public NoiseFloor {
        losses = List.copyOf(losses);
        List<Map<String, Double>> steps = new ArrayList<>();
        gradients.forEach(g -> steps.add(Collections.unmodifiableMap(new TreeMap<>(g))));
        gradients = List.copyOf(steps);
        updates = Collections.unmodifiableMap(new TreeMap<>(updates));
    }

    /** A gradient or update may be so many times as far from the reference as the floor. */
    static final double TOLERANCE = 2.5;

    /** A gradient's length along the reference may be off by so many standard deviations of rounding errors that do not add up, ... */
    private static final double GAIN_DEVIATIONS = 6;

    /** ... and by this much in any case. */
    private static final double GAIN = 0.005;

    /** A loss may be off by this share of itself in any case. */
    private static final double LOSS = 0.005;

    /** The floor that these replays measure. */
    static NoiseFloor of(Replay reference, Replay order, Replay rounding) {
        List<Double> losses = new ArrayList<>();
        List<Map<String, Double>> gradients = new ArrayList<>();
        double loss = 0;
        for (int i = 0; i < reference.losses().size(); i++) {
            double r = reference.losses().get(i);
            loss = Math.max(loss, Math.abs(order.losses().get(i) - r));
            loss = Math.max(loss, Math.abs(rounding.losses().get(i) - r));
            losses.add(Math.max(loss, LOSS * Math.abs(r)));
            gradients.add(floors(order.gradients().get(i), rounding.gradients().get(i)));
        }
        return new NoiseFloor(order, rounding, losses, gradients, floors(order.updates(), rounding.updates()));
    }

    private static Map<String, Double> floors(Map<String, Difference> order, Map<String, Difference> rounding) {
        Map<String, Double> floors = new TreeMap<>();
        order.forEach((name, d) -> floors.put(name, larger(d, rounding.get(name))));
        double[] sorted = floors.values().stream().mapToDouble(x -> x).sorted().toArray();
        double least = sorted.length == 0 ? 0 : sorted[sorted.length / 2] / 2;
        floors.replaceAll((_, x) -> Math.max(x, least));
        return floors;
    }

    private static double larger(Difference a, @Nullable Difference b) {
        return b == null ? a.error() : Math.max(a.error(), b.error());
    }

    /** How far a replay is from the reference. */
    Deviation deviation(Replay replay, Replay reference) {
        Farthest farthest = new Farthest();
        double loss = 0;
        double error = 0;
        double cosine = 1;
        double gain = 1;
        if (!replay.isFinite()) {
            farthest.see(Double.POSITIVE_INFINITY, replay.nonFinite());
        }
        for (int i = 0; i < losses.size(); i++) {
            String step = " in step " + (i + 1) + " of the replay";
            double off = Math.abs(replay.losses().get(i) - reference.losses().get(i));
            loss = Math.max(loss, off);
            farthest.see(off / (TOLERANCE * losses.get(i)), "loss" + step);
            for (Map.Entry<String, Difference> e : replay.gradients().get(i).entrySet()) {
                Difference d = e.getValue();
                double floor = gradients.get(i).getOrDefault(e.getKey(), 0.0);
                error = Math.max(error, d.error());
                cosine = Math.min(cosine, d.cosine());
                gain = Math.abs(d.gain() - 1) > Math.abs(gain - 1) ? d.gain() : gain;
                farthest.see(ratio(d.error(), TOLERANCE * floor), "gradient of " + e.getKey() + step);
                double random = GAIN_DEVIATIONS * Math.max(floor, d.error()) / Math.sqrt(d.elements());
                farthest.see(
                        Math.abs(d.gain() - 1) / (GAIN + random), "length of the gradient of " + e.getKey() + step);
            }
        }
        double update = 1;
        for (Map.Entry<String, Difference> e : replay.updates().entrySet()) {
            update = Math.min(update, e.getValue().cosine());
            double floor = updates.getOrDefault(e.getKey(), 0.0);
            farthest.see(ratio(e.getValue().error(), TOLERANCE * floor), "update of " + e.getKey());
        }
        return new Deviation(farthest.excess, farthest.by, loss, error, cosine, gain, update);
    }

    private static double ratio(double error, double allowed) {
        return error == 0 ? 0 : error / allowed;
    }

    /** The distance that noise explains least. */
    private static final class Farthest {
        private double excess;
        private String by = "";

        void see(double x, String what) {
            if (x > excess || Double.isNaN(x)) {
                excess = Double.isNaN(x) ? Double.POSITIVE_INFINITY : x;
                by = what;
            }
        }
    }
}
