package dev.octet.trainer.adapter;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Locale;
import java.util.random.RandomGenerator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Where A and B of LoRA start: {@code init_lora_weights}. */
final class LoraStart {
    private static final Pattern NITER = Pattern.compile("pissa_niter_(\\d{1,4})");
    /** The values that are known, for messages. */
    static final List<String> NAMES =
            List.of("true", "false", "gaussian", "orthogonal", "pissa", "pissa_niter_N", "olora");

    private final String name;
    private final AdapterSettings settings;

    private LoraStart(String name, AdapterSettings settings) {
        this.name = name;
        this.settings = settings;
    }

    /**
     * Initial A and B.
     *
     * @param isTakenFromBase whether the base then counts without their product
     */
    record Pair(InitialValues.Law a, InitialValues.Law b, boolean isTakenFromBase) {
        /** For an adapter that is continued. */
        static final Pair UNUSED = new Pair(InitialValues.ZEROS, InitialValues.ZEROS, false);

        /** Elements of A, row by row. Pairs whose elements are asked for are not random any more. */
        float[] aElements(Shape shape) {
            return a.elements(shape, RandomGenerator.getDefault());
        }

        /** Elements of B, row by row. */
        float[] bElements(Shape shape) {
            return b.elements(shape, RandomGenerator.getDefault());
        }
    }

    /** @throws InvalidOptionException when there is no such start */
    static LoraStart of(String written, AdapterSettings settings) {
        String name = written.toLowerCase(Locale.ROOT);
        if (!NAMES.contains(name) && !NITER.matcher(name).matches()) {
            throw new InvalidOptionException(
                    "init_lora_weights is '" + written + "'",
                    settings.where("init_lora_weights"),
                    "use one of " + String.join(", ", NAMES));
        }
        return new LoraStart(name, settings);
    }

    /** Where the bias of B starts: zero, or as a Linear's in torch. */
    InitialValues.Law bias(int r) {
        double bound = 1 / Math.sqrt(r);
        return name.equals("false") ? InitialValues.uniform(bound) : InitialValues.ZEROS;
    }

    /** A and B for a weight. */
    Pair pair(BaseWeight w, int r, double scaling, RandomGenerator random) {
        Matcher niter = NITER.matcher(name);
        if (niter.matches()) {
            return taken(Factorization.largest(w, r, scaling, Math.max(1, Integer.parseInt(niter.group(1))), random));
        }
        return switch (name) {
            case "true" -> fixed(InitialValues.kaimingUniform(), InitialValues.ZEROS, w, r, random);
            // as torch's Linear, which PEFT leaves as it is made
            case "false" -> fixed(InitialValues.kaimingUniform(), InitialValues.kaimingUniform(), w, r, random);
            case "gaussian" -> fixed(InitialValues.normal(1.0 / r), InitialValues.ZEROS, w, r, random);
            case "orthogonal" -> orthogonal(w, r, random);
            case "olora" -> taken(Factorization.first(w, r));
            default -> taken(Factorization.largest(w, r, scaling, 0, random));
        };
    }

    private static Pair fixed(InitialValues.Law a, InitialValues.Law b, BaseWeight w, int r, RandomGenerator random) {
        float[] aElements = a.elements(Shape.of(r, w.in()), random);
        float[] bElements = b.elements(Shape.of(w.out(), r), random);
        return new Pair((_, _) -> aElements, (_, _) -> bElements, false);
    }

    private static Pair taken(Factorization pair) {
        float[] a = pair.aElements();
        float[] b = pair.bElements();
        return new Pair((_, _) -> a, (_, _) -> b, true);
    }

    /**
     * A and B in the spans of the odd and of the even rows of one random rotation, so that B·A is 0 although neither is: PEFT's {@code orthogonal_init}, after
     * https://datta0.github.io/posts/rethink-lora-init.
     */
    private Pair orthogonal(BaseWeight w, int r, RandomGenerator random) {
        if (r % 2 != 0) {
            throw new InvalidOptionException(
                    "init_lora_weights: orthogonal needs even ranks, and one is " + r,
                    settings.where("init_lora_weights"),
                    "set r to " + (r + 1));
        }
        double[][] q = gaussian(r, r, random);
        Factorization.orthonormal(q);
        double[][] x = gaussian(w.in(), r / 2, random);
        double[][] y = gaussian(w.out(), r / 2, random);
        float[] a = new float[r * w.in()];
        float[] b = new float[w.out() * r];
        for (int k = 0; k < r; k++) {
            for (int h = 0; h < r / 2; h++) {
                for (int i = 0; i < w.in(); i++) {
                    a[k * w.in() + i] += (float) (x[i][h] * q[2 * h][k] / 10);
                }
                for (int o = 0; o < w.out(); o++) {
                    b[o * r + k] += (float) (y[o][h] * q[2 * h + 1][k] / 10);
                }
            }
        }
        return new Pair((_, _) -> a, (_, _) -> b, false);
    }

    private static double[][] gaussian(int rows, int columns, RandomGenerator random) {
        double[][] m = new double[rows][columns];
        for (double[] row : m) {
            for (int c = 0; c < columns; c++) {
                row[c] = random.nextGaussian();
            }
        }
        return m;
    }
}
