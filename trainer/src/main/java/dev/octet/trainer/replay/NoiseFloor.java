package dev.octet.trainer.replay;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToDoubleFunction;
import java.util.stream.DoubleStream;

/**
 * What of the distance between two replays noise explains. There are two floors, each measured by replays that are healthy by construction:
 * <ul>
 *   <li>of FP8 from the reference, by two: F32 with the samples of each micro-batch last to first, so that everything is rounded elsewhere
 *       and sums have another order; and every operand rounded to the mantissa of its FP8 format with a power of two for each element, so that
 *       nothing is clipped and nothing underflows: what the format costs whatever the scales;
 *   <li>of products of codes from fake quantisation with the same codes and scales, everything around them in F32, by one: fake
 *       quantisation with the samples last to first and vectors such as biases changed in their last bits, as sums of another order are. It is so low that a product which is wrong by one or two percent stands out. Such a product makes
 *       gradients too long or too short; an error without that is one of rounding.
 * </ul>
 * The floor of a gradient is its largest error in these replays, at least half of the median over all parameters of the step; the same for
 * updates. What the mantissa costs counts in full while the median of its errors is at most {@value #MOST_ROUNDING}, and less beyond: a
 * layer that stands no rounding is at fault, a parameter whose gradient is the small difference of large numbers is not. Where the mantissa
 * changes the loss by more than the loss itself, as where a model is distilled from itself, gradients are made of rounding: from that step on
 * it counts in full in any case.
 *
 * @param measuredBy the replays
 * @param losses floor of {@code |loss - reference|} in each step
 * @param gradients floor of each gradient's relative error, for each step by parameter
 * @param updates floor of each update's relative error, by parameter; empty for products of codes: the first update of Adam has the sign
 *     of the gradient, which one code that is rounded otherwise may turn
 * @param ofProducts whether this is the second floor
 */
public record NoiseFloor(
        List<Replay> measuredBy,
        List<Double> losses,
        List<Map<String, Double>> gradients,
        Map<String, Double> updates,
        boolean ofProducts) {
    /** A distance may be so many times the floor. */
    static final double TOLERANCE = 3;

    /** The largest median error of gradients that rounding explains. */
    static final double MOST_ROUNDING = 0.2;

    /** For a parameter of n elements the tolerance is larger by this over the root of n: an error of few elements varies more. */
    private static final double FEW_ELEMENTS = 6;

    /** A loss may be off by this share of itself in any case. */
    private static final double LOSS = 0.01;

    /** A product of codes that is wrong makes gradients too long or too short by this at least; errors of single codes cancel out. */
    private static final double LEAST_GAIN = 0.002;

    /**
     * The least floor of products of codes: FP8 units do not sum in full F32. (Of sums of 4096 products on Hopper, DeepSeek-AI 2024,
     * arXiv:2412.19437, section 3.3.2, have errors of nearly 2 % in the worst element; of a whole gradient it is far less.)
     */
    private static final double LEAST_OF_PRODUCTS = 0.004;

    public NoiseFloor {
        measuredBy = List.copyOf(measuredBy);
        losses = List.copyOf(losses);
        List<Map<String, Double>> steps = new ArrayList<>();
        gradients.forEach(g -> steps.add(Collections.unmodifiableMap(new TreeMap<>(g))));
        gradients = List.copyOf(steps);
        updates = Collections.unmodifiableMap(new TreeMap<>(updates));
    }

    /** The floor of FP8 from the reference. */
    static NoiseFloor ofRounding(Replay reference, Replay order, Replay rounding) {
        List<Map<String, Double>> gradients = new ArrayList<>();
        double most = MOST_ROUNDING;
        for (int i = 0; i < reference.losses().size(); i++) {
            double loss = reference.losses().get(i);
            if (Math.abs(rounding.losses().get(i) - loss) > Math.abs(loss)) {
                most = Double.POSITIVE_INFINITY; // from here on: the first update goes where rounding says
            }
            gradients.add(floors(order.gradients().get(i), rounding.gradients().get(i), most));
        }
        return new NoiseFloor(
                List.of(order, rounding),
                losses(reference, List.of(order, rounding)),
                gradients,
                floors(order.updates(), rounding.updates(), Double.POSITIVE_INFINITY),
                false);
    }

    /** The floor of products of codes from fake quantisation. */
    static NoiseFloor ofProducts(Replay fake, Replay other) {
        return new NoiseFloor(
                List.of(other),
                losses(fake, List.of(other)),
                other.gradients().stream().map(NoiseFloor::ofProducts).toList(),
                Map.of(),
                true);
    }

    private static Map<String, Double> ofProducts(Map<String, Difference> other) {
        Map<String, Double> floors = floors(other, Map.of(), 0);
        floors.replaceAll((_, x) -> Math.max(x, LEAST_OF_PRODUCTS));
        return floors;
    }

    private static List<Double> losses(Replay reference, List<Replay> noise) {
        List<Double> losses = new ArrayList<>();
        double largest = 0;
        for (int i = 0; i < reference.losses().size(); i++) {
            double r = reference.losses().get(i);
            for (Replay n : noise) {
                largest = Math.max(largest, Math.abs(n.losses().get(i) - r));
            }
            losses.add(Math.max(largest, LOSS * Math.abs(r)));
        }
        return losses;
    }

    private static Map<String, Double> floors(
            Map<String, Difference> order, Map<String, Difference> rounding, double most) {
        double usual = median(rounding.values().stream().mapToDouble(Difference::error));
        double excused = usual > most ? most / usual : 1;
        Map<String, Double> floors = new TreeMap<>();
        order.forEach((name, d) -> {
            Difference r = rounding.getOrDefault(name, Difference.none(d.elements()));
            floors.put(name, Math.max(d.error(), excused * r.error()));
        });
        double least = median(floors.values().stream().mapToDouble(x -> x)) / 2;
        floors.replaceAll((_, x) -> Math.max(x, least));
        return floors;
    }

    private static double median(DoubleStream numbers) {
        double[] sorted = numbers.sorted().toArray();
        return sorted.length == 0 ? 0 : sorted[sorted.length / 2];
    }

    /** By how much errors of so many elements vary. */
    private static double spread(Difference d) {
        return 1 + FEW_ELEMENTS / Math.sqrt((double) d.elements());
    }

    /** How far a replay is from its reference. */
    Deviation deviation(Replay replay, Replay reference) {
        Farthest farthest = new Farthest();
        if (!replay.finite()) {
            farthest.see(Double.POSITIVE_INFINITY, replay.nonFinite());
        }
        double loss = 0;
        for (int i = 0; i < losses.size(); i++) {
            String step = " in step " + (i + 1) + " of the replay";
            double x = replay.losses().get(i);
            double off = Double.isFinite(x) ? Math.abs(x - reference.losses().get(i)) : Double.POSITIVE_INFINITY;
            loss = Math.max(loss, off);
            farthest.see(ratio(off, losses.get(i), 1), "loss" + step);
            for (Map.Entry<String, Difference> e : replay.gradients().get(i).entrySet()) {
                Difference d = e.getValue();
                double floor = gradients.get(i).getOrDefault(e.getKey(), 0.0);
                double excess = ratio(d.error(), floor, spread(d));
                if (ofProducts) {
                    excess = Math.min(excess, Math.abs(d.gain() - 1) / (LEAST_GAIN * spread(d)));
                }
                farthest.see(excess, "gradient of " + e.getKey() + step);
            }
        }
        updates.forEach((name, least) -> {
            Difference d = replay.updates().getOrDefault(name, Difference.none(1));
            farthest.see(ratio(d.error(), least, spread(d)), "update of " + name);
        });
        return new Deviation(
                farthest.excess,
                farthest.by,
                loss,
                largest(replay, Difference::error),
                1 - largest(replay, d -> 1 - d.cosine()),
                largest(replay, d -> Math.abs(d.gain() - 1)),
                1
                        - replay.updates().values().stream()
                                .mapToDouble(d -> 1 - d.cosine())
                                .max()
                                .orElse(0));
    }

    private static double ratio(double distance, double floor, double spread) {
        // an infinite floor is that of a gradient which is 0 in the reference alone
        return distance == 0 || floor == Double.POSITIVE_INFINITY ? 0 : distance / (TOLERANCE * spread * floor);
    }

    private static double largest(Replay replay, ToDoubleFunction<Difference> of) {
        return replay.gradients().stream()
                .flatMap(g -> g.values().stream())
                .mapToDouble(of)
                .max()
                .orElse(0);
    }

    /** The distance that noise explains least. */
    private static final class Farthest {
        private double excess;
        private String by = "";

        void see(double x, String what) {
            double seen = Double.isNaN(x) ? Double.POSITIVE_INFINITY : x;
            if (seen > excess) {
                excess = seen;
                by = what;
            }
        }
    }
}
