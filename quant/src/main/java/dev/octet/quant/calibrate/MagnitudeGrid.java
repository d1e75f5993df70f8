package dev.octet.quant.calibrate;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.statistics.TensorStatistics;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The finite, non-negative numbers of a type of codes in rising order, zero among them, and the borders between which each one is the nearest. */
final class MagnitudeGrid {
    private static final Map<QuantType, MagnitudeGrid> FLOATS = new ConcurrentHashMap<>();

    private final double[] values;
    /** {@code borders[i]} lies midway between values i and i + 1. */
    private final double[] borders;

    MagnitudeGrid(Float8Format format) {
        float[] table = format.decodeTable();
        double[] found = new double[table.length + 1]; // one more: zero, which E8M0 lacks
        int n = 1;
        for (float v : table) {
            if (Float.isFinite(v) && v > 0) {
                found[n++] = v;
            }
        }
        values = Arrays.stream(found, 0, n).sorted().distinct().toArray();
        borders = between(values);
    }

    private MagnitudeGrid(int steps) {
        values = new double[steps + 1];
        Arrays.setAll(values, i -> i);
        borders = between(values);
    }

    /**
     * The magnitudes that codes can stand for on the side of zero where they reach {@code clip}, in any unit.
     *
     * <p>Integers are evenly spaced. With a zero point, all steps share the range from the least to the greatest number, cut at the clip: most
     * of them lie on one side when the numbers do. Magnitudes of the other side are taken to lie on this grid, too.
     */
    static MagnitudeGrid of(QuantType type, TensorStatistics statistics, double clip) {
        if (!type.isInteger()) {
            return FLOATS.computeIfAbsent(
                    type, t -> new MagnitudeGrid(t.minifloat().orElseThrow()));
        }
        if (!type.hasZeroPoint()) {
            return new MagnitudeGrid(type.highest());
        }
        double other = Math.clamp(Math.min(-statistics.min(), statistics.max()), 0.0, clip);
        int steps = type.highest() - type.lowest();
        return new MagnitudeGrid(Math.max(1, (int) Math.rint(steps * (clip / (clip + other)))));
    }

    private static double[] between(double[] values) {
        double[] borders = new double[values.length - 1];
        for (int i = 0; i < borders.length; i++) {
            borders[i] = (values[i] + values[i + 1]) / 2;
        }
        return borders;
    }

    int size() {
        return values.length;
    }

    double max() {
        return values[values.length - 1];
    }

    double value(int i) {
        return values[i];
    }

    /** The upper border of the numbers that round to value {@code i}; infinite for the last, which saturates. */
    double upperBorder(int i) {
        return i < borders.length ? borders[i] : Double.POSITIVE_INFINITY;
    }

    /** Index of the value nearest to a magnitude. On a border the upper one: calibration does not depend on ties. */
    int nearest(double magnitude) {
        int i = Arrays.binarySearch(borders, magnitude);
        return i >= 0 ? i + 1 : -i - 1;
    }
}
