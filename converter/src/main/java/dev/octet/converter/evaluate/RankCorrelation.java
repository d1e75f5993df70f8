package dev.octet.converter.evaluate;

import java.util.Arrays;

/** Spearman's rank correlation (C. Spearman, 1904): Pearson's correlation of the ranks, equal values sharing their mean rank. */
final class RankCorrelation {
    private RankCorrelation() {}

    /** From -1 to 1; NaN for fewer than two pairs, when one side is constant, or when there are NaNs. */
    static double spearman(double[] x, double[] y) {
        if (Arrays.stream(x).anyMatch(Double::isNaN) || Arrays.stream(y).anyMatch(Double::isNaN)) {
            return Double.NaN;
        }
        return pearson(ranks(x), ranks(y));
    }

    private static double[] ranks(double[] values) {
        int n = values.length;
        Integer[] order = new Integer[n];
        Arrays.setAll(order, i -> i);
        Arrays.sort(order, (a, b) -> Double.compare(values[a], values[b]));
        double[] ranks = new double[n];
        for (int from = 0; from < n; ) {
            int to = from + 1;
            while (to < n && values[order[to]] == values[order[from]]) {
                to++;
            }
            for (int i = from; i < to; i++) {
                ranks[order[i]] = (from + to - 1) / 2.0;
            }
            from = to;
        }
        return ranks;
    }

    private static double pearson(double[] x, double[] y) {
        double mx = Arrays.stream(x).average().orElse(Double.NaN);
        double my = Arrays.stream(y).average().orElse(Double.NaN);
        double xy = 0;
        double xx = 0;
        double yy = 0;
        for (int i = 0; i < x.length; i++) {
            xy += (x[i] - mx) * (y[i] - my);
            xx += (x[i] - mx) * (x[i] - mx);
            yy += (y[i] - my) * (y[i] - my);
        }
        return xy / Math.sqrt(xx * yy); // 0 / 0 = NaN for constants
    }
}
