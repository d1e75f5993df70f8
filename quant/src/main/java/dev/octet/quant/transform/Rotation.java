package dev.octet.quant.transform;

import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;
import java.util.SplittableRandom;

/**
 * An orthogonal matrix R of {@code size x size}: {@code x R} has the length of x, and channels that stand out are spread over all. Rotations
 * of weights on both sides of a sum cancel (QuaRot, arXiv:2404.00456; SpinQuant, arXiv:2405.16406).
 *
 * <p>A Hadamard matrix is the Kronecker product of Sylvester's, of a power of two, and one of Paley's constructions. Where no such
 * product has the size, R comes from the orthogonalisation of a random matrix. All arithmetic is in double precision. Immutable.
 */
public final class Rotation {
    /** How a rotation is made. */
    public enum Kind {
        /** A Hadamard matrix over the root of its size, always the same. */
        HADAMARD,
        /** The same with the rows' signs drawn from a seed, as QuaRot has it. */
        RANDOM
    }

    private final String text;
    private final int size;
    /** Of the Sylvester factor. */
    private final int power;
    /** The other factor {@code [base][base]}, with the root of the size divided out of it. */
    private final double[][] base;
    /** Multiplies the elements before the product; empty for ones. */
    private final double[] signs;

    private Rotation(String text, int power, double[][] base, double[] signs) {
        this.text = text;
        this.size = power * base.length;
        this.power = power;
        this.base = base;
        this.signs = signs;
    }

    /**
     * The rotation of a size.
     *
     * @param seed of the signs, and of the random matrix where there is no Hadamard matrix
     * @throws IllegalArgumentException for a size below 1
     */
    public static Rotation of(Kind kind, int size, long seed) {
        if (size < 1) {
            throw new IllegalArgumentException("a rotation of " + size);
        }
        Optional<Factors> factors = factors(size);
        if (factors.isEmpty()) {
            return new Rotation("random orthogonal " + size, 1, orthogonal(size, seed), new double[0]);
        }
        Factors f = factors.get();
        double root = 1 / Math.sqrt(size);
        double[][] base = f.paley.matrix();
        for (double[] row : base) {
            for (int i = 0; i < row.length; i++) {
                row[i] *= root;
            }
        }
        String product = base.length == 1 ? "Sylvester" : (f.power > 1 ? f.power + " x " : "") + f.paley.text();
        String name = (kind == Kind.RANDOM ? "random Hadamard " : "Hadamard ") + size + " (" + product + ")";
        return new Rotation(name, f.power, base, kind == Kind.RANDOM ? signs(size, seed) : new double[0]);
    }

    /** Whether there is a Hadamard matrix of a size here. */
    public static boolean hasHadamard(int size) {
        return factors(size).isPresent();
    }

    /** Elements that are turned together. */
    public int size() {
        return size;
    }

    /** Size and construction, as {@code Hadamard 48 (4 x Paley 12)}. */
    public String text() {
        return text;
    }

    /** Replaces x, {@link #size} elements from {@code from} on, by {@code x R}. */
    public void apply(double[] x, int from) {
        for (int i = 0; i < signs.length; i++) {
            x[from + i] *= signs[i];
        }
        sylvester(x, from);
        product(x, from, false);
    }

    /** Replaces x by {@code x R^T}, which takes {@link #apply} back. */
    public void applyTransposed(double[] x, int from) {
        product(x, from, true);
        sylvester(x, from);
        for (int i = 0; i < signs.length; i++) {
            x[from + i] *= signs[i];
        }
    }

    /** Element (i, j) is the j-th of the i-th unit vector's image. */
    public double[][] matrix() {
        double[][] matrix = new double[size][size];
        for (int i = 0; i < size; i++) {
            matrix[i][i] = 1;
            apply(matrix[i], 0);
        }
        return matrix;
    }

    /** Butterflies over the power of two: rows of {@code base.length} elements are added and subtracted. */
    private void sylvester(double[] x, int from) {
        int width = base.length;
        for (int half = 1; half < power; half *= 2) {
            for (int start = 0; start < power; start += 2 * half) {
                for (int at = from + start * width; at < from + (start + half) * width; at++) {
                    double a = x[at];
                    double b = x[at + half * width];
                    x[at] = a + b;
                    x[at + half * width] = a - b;
                }
            }
        }
    }

    private void product(double[] x, int from, boolean transposed) {
        int width = base.length;
        if (width == 1) {
            for (int i = from; i < from + size; i++) {
                x[i] *= base[0][0];
            }
            return;
        }
        double[] out = new double[width];
        for (int at = from; at < from + size; at += width) {
            Arrays.fill(out, 0);
            for (int i = 0; i < width; i++) {
                for (int j = 0; j < width; j++) {
                    out[transposed ? i : j] += base[i][j] * x[at + (transposed ? j : i)];
                }
            }
            System.arraycopy(out, 0, x, at, width);
        }
    }

    private static double[] signs(int size, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        double[] signs = new double[size];
        for (int i = 0; i < size; i++) {
            signs[i] = random.nextBoolean() ? 1 : -1;
        }
        return signs;
    }

    /** Rows of a Gaussian matrix, each made orthogonal to those before it, twice, so that rounding does not add up. */
    private static double[][] orthogonal(int size, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        double[][] q = new double[size][size];
        for (int i = 0; i < size; i++) {
            for (int j = 0; j < size; j++) {
                q[i][j] = random.nextGaussian();
            }
            for (int pass = 0; pass < 2; pass++) {
                for (int k = 0; k < i; k++) {
                    subtract(q[i], q[k], dot(q[i], q[k]));
                }
            }
            double length = Math.sqrt(dot(q[i], q[i]));
            for (int j = 0; j < size; j++) {
                q[i][j] /= length;
            }
        }
        return q;
    }

    private static double dot(double[] a, double[] b) {
        double sum = 0;
        for (int i = 0; i < a.length; i++) {
            sum += a[i] * b[i];
        }
        return sum;
    }

    private static void subtract(double[] from, double[] what, double factor) {
        for (int i = 0; i < from.length; i++) {
            from[i] -= factor * what[i];
        }
    }

    /**
     * The factors of a Hadamard matrix.
     *
     * @param power of two
     */
    private record Factors(int power, Paley paley) {}

    /** The product with the smallest factor that is not Sylvester's. */
    private static Optional<Factors> factors(int size) {
        int odd = size >> Integer.numberOfTrailingZeros(size);
        if (odd == 1) {
            return Optional.of(new Factors(size, new Paley(1, 0)));
        }
        for (long rest = 4L * odd; rest <= size; rest *= 2) {
            Optional<Paley> paley = size % rest == 0 ? Paley.of((int) rest) : Optional.empty();
            if (paley.isPresent()) {
                return Optional.of(new Factors(size / (int) rest, paley.get()));
            }
        }
        return Optional.empty();
    }

    /**
     * Paley's constructions over the field of a prime: of size {@code prime + 1} where the prime is 3 modulo 4, of {@code 2 (prime + 1)}
     * where it is 1 (R. E. A. C. Paley, On orthogonal matrices, 1933).
     *
     * @param prime 0 for the matrix of one element
     */
    private record Paley(int size, int prime) {
        static Optional<Paley> of(int size) {
            if (size % 4 != 0) {
                return Optional.empty();
            }
            if (isPrime(size - 1)) {
                return Optional.of(new Paley(size, size - 1));
            }
            int half = size / 2 - 1;
            return half % 4 == 1 && isPrime(half) ? Optional.of(new Paley(size, half)) : Optional.empty();
        }

        String text() {
            return String.format(Locale.ROOT, "Paley %d", size);
        }

        double[][] matrix() {
            if (size == 1) {
                return new double[][] {{1}};
            }
            return prime == size - 1 ? first() : second();
        }

        /** I + S, S skew-symmetric with a border of ones. */
        private double[][] first() {
            double[][] h = new double[size][size];
            for (int i = 0; i < size; i++) {
                for (int j = 0; j < size; j++) {
                    double s = i == 0 ? 1 : j == 0 ? -1 : residue(i - j);
                    h[i][j] = i == j ? 1 : s;
                }
            }
            return h;
        }

        /** A symmetric conference matrix with 2 x 2 blocks for its elements. */
        private double[][] second() {
            double[][] h = new double[size][size];
            for (int i = 0; i <= prime; i++) {
                for (int j = 0; j <= prime; j++) {
                    double c = i == j ? 0 : i == 0 || j == 0 ? 1 : residue(i - j);
                    h[2 * i][2 * j] = i == j ? 1 : c;
                    h[2 * i][2 * j + 1] = i == j ? -1 : c;
                    h[2 * i + 1][2 * j] = i == j ? -1 : c;
                    h[2 * i + 1][2 * j + 1] = i == j ? -1 : -c;
                }
            }
            return h;
        }

        /** The quadratic character: 1 for a square modulo the prime, -1 for none, 0 for zero. */
        private int residue(int number) {
            int a = Math.floorMod(number, prime);
            if (a == 0) {
                return 0;
            }
            long power = 1;
            long square = a;
            for (int e = (prime - 1) / 2; e > 0; e /= 2) {
                power = e % 2 == 1 ? power * square % prime : power;
                square = square * square % prime;
            }
            return power == 1 ? 1 : -1;
        }

        private static boolean isPrime(int n) {
            if (n < 2) {
                return false;
            }
            for (int d = 2; (long) d * d <= n; d++) {
                if (n % d == 0) {
                    return false;
                }
            }
            return true;
        }
    }
}
