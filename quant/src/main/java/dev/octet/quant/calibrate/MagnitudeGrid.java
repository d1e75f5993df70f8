package dev.octet.quant.calibrate;

import dev.octet.quant.number.Float8Format;
import java.util.Arrays;

/** The finite, non-negative numbers of a format in rising order, zero among them, and the borders between which each one is the nearest. */
final class MagnitudeGrid {
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
        borders = new double[values.length - 1];
        for (int i = 0; i < borders.length; i++) {
            borders[i] = (values[i] + values[i + 1]) / 2;
        }
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
