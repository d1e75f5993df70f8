package dev.octet.pipeline.doctor;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.trainer.hook.MetricsFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * The losses of a run by step.
 *
 * @param points in the order of their steps, each step once
 */
public record Course(List<Point> points) {
    /**
     * A step.
     *
     * @param step from 1
     * @param loss NaN when it was not finite
     * @param gradNorm of all gradients together, before clipping; NaN when it was not finite or is not known
     */
    public record Point(long step, double loss, double gradNorm) {
        /** Whether the loss was a number. */
        public boolean finite() {
            return Double.isFinite(loss);
        }
    }

    private static final String LOSS = "loss";

    public Course {
        points = List.copyOf(points);
    }

    /** Losses of consecutive steps. */
    public static Course of(long firstStep, double... losses) {
        List<Point> points = new ArrayList<>();
        for (int i = 0; i < losses.length; i++) {
            points.add(new Point(firstStep + i, losses[i], Double.NaN));
        }
        return new Course(points);
    }

    /** Points as they were written: where a run was resumed and did steps again, the later ones count. */
    public static Course ofWritten(List<Point> written) {
        TreeMap<Long, Point> last = new TreeMap<>();
        written.forEach(p -> last.put(p.step(), p));
        return new Course(List.copyOf(last.values()));
    }

    /**
     * The losses that a run wrote; none where it wrote none.
     *
     * @param run its folder
     * @throws IOException when its file cannot be read
     */
    public static Course read(Path run) throws IOException {
        List<Point> written = new ArrayList<>();
        MetricsFile.read(run, line -> {
            if (line.has(LOSS)) {
                written.add(
                        new Point(line.path("step").asLong(), number(line.path(LOSS)), number(line.path("grad_norm"))));
            }
        });
        return ofWritten(written);
    }

    private static double number(JsonNode value) {
        return value.isNumber() ? value.asDouble() : Double.NaN;
    }

    /** How many steps. */
    public int size() {
        return points.size();
    }

    /** Whether no step had a loss that is a number. */
    public boolean neverFinite() {
        return points.stream().noneMatch(Point::finite);
    }

    /** The steps from one to another, both included. */
    public Course between(long first, long last) {
        return new Course(points.stream()
                .filter(p -> p.step() >= first && p.step() <= last)
                .toList());
    }

    /** The steps that another course has, too. */
    public Course sharedWith(Course other) {
        Map<Long, Point> there = other.byStep();
        return new Course(
                points.stream().filter(p -> there.containsKey(p.step())).toList());
    }

    private Map<Long, Point> byStep() {
        return points.stream().collect(Collectors.toMap(Point::step, p -> p));
    }

    double[] losses() {
        return points.stream().mapToDouble(Point::loss).toArray();
    }

    /** The median of the gradient norms; NaN without any. */
    public double usualGradNorm() {
        return median(points.stream()
                .mapToDouble(Point::gradNorm)
                .filter(Double::isFinite)
                .toArray());
    }

    /** The middle of some numbers, of an even count the mean of both in the middle; NaN of none. */
    static double median(double... values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        int n = sorted.length;
        return n == 0 ? Double.NaN : n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    }
}
