package dev.octet.trainer.adapter;

import java.util.random.RandomGenerator;
import java.util.stream.IntStream;

/**
 * The best approximations of a matrix by products of rank r, and its first directions, in F64.
 *
 * @param b [out, r]
 * @param a [r, in]
 */
@SuppressWarnings("ArrayRecordComponent") // factors, never compared
record Factorization(double[][] b, double[][] a) {
    /** Subspaces are iterated until no singular value changes by more than this part of itself. */
    private static final double CONVERGED = 1e-9;

    private static final int MAX_ITERATIONS = 100;
    /** Up to this many directions, all are iterated: the result is exact at once. */
    private static final int WHOLE = 128;
    /** Directions iterated besides those that are wanted; they make the wanted ones converge faster. */
    private static final int SPARE = 8;

    /**
     * B = U·sqrt(S/scaling), A = sqrt(S/scaling)·Vᵀ of the r largest singular values of W: PiSSA's start (Meng et al. 2024, arXiv:2404.02948, eq. 2 and 3), as PEFT has it.
     * By iterated subspaces (Halko, Martinsson and Tropp 2011, arXiv:0909.4061, algorithm 4.4).
     *
     * @param iterations how often a subspace is iterated; 0 for until it does not change
     */
    static Factorization largest(BaseWeight w, int r, double scaling, int iterations, RandomGenerator random) {
        int smaller = Math.min(w.in(), w.out());
        int k = smaller <= WHOLE ? smaller : Math.min(r + SPARE, smaller);
        double[][] v = new double[w.in()][k];
        for (double[] row : v) {
            for (int c = 0; c < k; c++) {
                row[c] = random.nextGaussian();
            }
        }
        orthonormal(v);
        double[][] y = w.times(v);
        double[] before = new double[k];
        for (int i = 0; i < (iterations > 0 ? iterations : MAX_ITERATIONS); i++) {
            orthonormal(y);
            v = w.transposedTimes(y);
            orthonormal(v);
            y = w.times(v);
            double[] lengths = singularValues(y);
            if (iterations == 0 && close(lengths, before, r)) {
                break;
            }
            before = lengths;
        }
        // W ≈ Y·Vᵀ with orthonormal V; Y = U·S·Rᵀ, so W ≈ U·S·(V·R)ᵀ
        double[][] rotation = rotate(y);
        double[][] turned = product(v, rotation);
        double[] lengths = columnLengths(y);
        int[] order = descending(lengths);
        double[][] b = new double[w.out()][r];
        double[][] a = new double[r][w.in()];
        for (int c = 0; c < r; c++) {
            double s = lengths[order[c]];
            double root = Math.sqrt(s / scaling);
            for (int i = 0; i < b.length; i++) {
                b[i][c] = s == 0 ? 0 : y[i][order[c]] / s * root;
            }
            for (int i = 0; i < turned.length; i++) {
                a[c][i] = turned[i][order[c]] * root;
            }
        }
        return new Factorization(b, a);
    }

    /** B = Q's first r columns, A = R's first r rows of W = Q·R: OLoRA's start (Büyükakyüz 2024, arXiv:2406.01775, §3). */
    static Factorization first(BaseWeight w, int r) {
        double[][] q = new double[w.out()][r];
        for (int c = 0; c < r; c++) {
            double[] column = w.column(c);
            for (int i = 0; i < column.length; i++) {
                q[i][c] = column[i];
            }
        }
        orthonormal(q);
        double[][] a = new double[r][w.in()];
        double[][] projected = w.transposedTimes(q);
        for (int i = 0; i < projected.length; i++) {
            for (int c = 0; c < r; c++) {
                a[c][i] = projected[i][c];
            }
        }
        return new Factorization(q, a);
    }

    /** Elements of B, row by row. */
    float[] bElements() {
        return elements(b);
    }

    /** Elements of A, row by row. */
    float[] aElements() {
        return elements(a);
    }

    private static float[] elements(double[][] m) {
        float[] all = new float[m.length * m[0].length];
        for (int i = 0; i < m.length; i++) {
            for (int k = 0; k < m[0].length; k++) {
                all[i * m[0].length + k] = (float) m[i][k];
            }
        }
        return all;
    }

    /** Makes columns orthonormal, by Gram and Schmidt twice; a column that depends on those before it becomes zero. */
    static void orthonormal(double[][] m) {
        int columns = m[0].length;
        for (int c = 0; c < columns; c++) {
            double start = length(m, c);
            for (int pass = 0; pass < 2; pass++) {
                for (int before = 0; before < c; before++) {
                    double dot = 0;
                    for (double[] row : m) {
                        dot += row[before] * row[c];
                    }
                    for (double[] row : m) {
                        row[c] -= dot * row[before];
                    }
                }
            }
            double rest = length(m, c);
            double factor = rest <= 1e-13 * start ? 0 : 1 / rest;
            for (double[] row : m) {
                row[c] *= factor;
            }
        }
    }

    private static double length(double[][] m, int c) {
        double sum = 0;
        for (double[] row : m) {
            sum += row[c] * row[c];
        }
        return Math.sqrt(sum);
    }

    private static double[] columnLengths(double[][] m) {
        double[] lengths = new double[m[0].length];
        for (int c = 0; c < lengths.length; c++) {
            lengths[c] = length(m, c);
        }
        return lengths;
    }

    private static double[] singularValues(double[][] y) {
        double[][] copy = new double[y.length][];
        for (int i = 0; i < y.length; i++) {
            copy[i] = y[i].clone();
        }
        rotate(copy);
        double[] lengths = columnLengths(copy);
        int[] order = descending(lengths);
        double[] sorted = new double[lengths.length];
        for (int i = 0; i < sorted.length; i++) {
            sorted[i] = lengths[order[i]];
        }
        return sorted;
    }

    private static boolean close(double[] a, double[] b, int n) {
        for (int i = 0; i < n; i++) {
            if (Math.abs(a[i] - b[i]) > CONVERGED * a[0]) {
                return false;
            }
        }
        return true;
    }

    private static int[] descending(double[] values) {
        return IntStream.range(0, values.length)
                .boxed()
                .sorted((i, k) -> Double.compare(values[k], values[i]))
                .mapToInt(i -> i)
                .toArray();
    }

    /** Rotates columns until they are orthogonal (one-sided Jacobi); returns the rotation R, so that what was Y is Y·R. */
    private static double[][] rotate(double[][] y) {
        int n = y[0].length;
        double[][] r = new double[n][n];
        for (int i = 0; i < n; i++) {
            r[i][i] = 1;
        }
        boolean turned = true;
        for (int sweep = 0; sweep < 60 && turned; sweep++) {
            turned = false;
            for (int p = 0; p < n; p++) {
                for (int q = p + 1; q < n; q++) {
                    double alpha = 0;
                    double beta = 0;
                    double gamma = 0;
                    for (double[] row : y) {
                        alpha += row[p] * row[p];
                        beta += row[q] * row[q];
                        gamma += row[p] * row[q];
                    }
                    if (Math.abs(gamma) <= 1e-15 * Math.sqrt(alpha * beta)) {
                        continue;
                    }
                    turned = true;
                    double zeta = (beta - alpha) / (2 * gamma);
                    double t = Math.copySign(1, zeta) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
                    double cos = 1 / Math.sqrt(1 + t * t);
                    turn(y, p, q, cos, cos * t);
                    turn(r, p, q, cos, cos * t);
                }
            }
        }
        return r;
    }

    private static void turn(double[][] m, int p, int q, double cos, double sin) {
        for (double[] row : m) {
            double a = row[p];
            row[p] = cos * a - sin * row[q];
            row[q] = sin * a + cos * row[q];
        }
    }

    private static double[][] product(double[][] a, double[][] b) {
        double[][] c = new double[a.length][b[0].length];
        for (int i = 0; i < a.length; i++) {
            for (int k = 0; k < b.length; k++) {
                for (int j = 0; j < b[0].length; j++) {
                    c[i][j] += a[i][k] * b[k][j];
                }
            }
        }
        return c;
    }
}
