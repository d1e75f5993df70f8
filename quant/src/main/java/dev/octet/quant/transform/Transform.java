package dev.octet.quant.transform;

import dev.octet.formats.error.InvalidOptionException;
import java.util.List;
import java.util.Locale;

/** What is done to the weights of a model before they are quantised, without changing what the model computes. */
public sealed interface Transform {
    /** What {@link #parse} reads. */
    String SYNTAX = "smoothquant[:ALPHA], awq, awq-duo, rotate[:hadamard|random]";

    /** As {@link #parse} reads it. */
    String text();

    /** Whether its factors follow from statistics of activations. */
    default boolean needsStatistics() {
        return !(this instanceof Rotate);
    }

    /**
     * Moves magnitude from activations to weights (SmoothQuant, arXiv:2211.10438): the inputs of Linears behind a norm are divided by
     * {@code s = amax_x^alpha / amax_w^(1 - alpha)}.
     *
     * @param alpha 0 to 1: how much of the activations' range goes to the weights; models with large outliers want .8 to .9
     */
    record SmoothQuant(double alpha) implements Transform {
        /** The paper's choice. */
        public static final double ALPHA = 0.5;

        /**
         * For inputs in integers with one scale per tensor: what counts is the range of the input, for weights have a scale per output channel. On
         * MiniLM in INT8, cosines are .983 with 0.5, .9983 with 0.75, .9988 with 0.9, but the worst of 400 texts is best with 0.75.
         */
        public static final double INTEGERS_ALPHA = 0.75;

        /** @throws InvalidOptionException when alpha is outside 0 to 1 */
        public SmoothQuant {
            if (!(alpha >= 0 && alpha <= 1)) {
                throw new InvalidOptionException(
                        "alpha of SmoothQuant is " + alpha + ", not 0 to 1",
                        "transform smoothquant",
                        "give smoothquant:0.5, or up to 0.9 for a model whose activations have large outliers");
            }
        }

        @Override
        public String text() {
            return "smoothquant:" + alpha;
        }
    }

    /**
     * Multiplies the weights of channels that matter, so that they lose less (AWQ, arXiv:2306.00978): of 20 exponents the one with the
     * least error of the output, then of 10 clips for each group of a weight.
     *
     * @param duo the factors follow from weights, too ({@code mean|x|^r / mean|w|^(1 - r)}), instead of {@code mean|x|^r}
     */
    record Awq(boolean duo) implements Transform {
        @Override
        public String text() {
            return duo ? "awq-duo" : "awq";
        }
    }

    /**
     * Turns the residual stream (R1) and the values of each head (R2), which spreads outliers over all channels; norms are folded into the
     * Linears behind them first (SpinQuant, arXiv:2405.16406).
     */
    record Rotate(Rotation.Kind kind) implements Transform {
        @Override
        public String text() {
            return "rotate:" + kind.name().toLowerCase(Locale.ROOT);
        }
    }

    /**
     * Reads a transform as users type it.
     *
     * @throws InvalidOptionException when it is none
     */
    static Transform parse(String text) {
        return parse(text, SmoothQuant.ALPHA);
    }

    /**
     * The same with another alpha of SmoothQuant where users give none.
     *
     * @throws InvalidOptionException when it is none
     */
    static Transform parse(String text, double usualAlpha) {
        List<String> parts = List.of(text.split(":", -1));
        String argument = parts.size() == 2 ? parts.get(1) : "";
        if (parts.size() <= 2) {
            switch (parts.getFirst()) {
                case "smoothquant" -> {
                    if (parts.size() == 1) {
                        return new SmoothQuant(usualAlpha);
                    }
                    try {
                        return new SmoothQuant(Double.parseDouble(argument));
                    } catch (NumberFormatException _) {
                        throw unknown(text);
                    }
                }
                case "awq", "awq-duo" -> {
                    if (parts.size() == 1) {
                        return new Awq(parts.getFirst().equals("awq-duo"));
                    }
                }
                case "rotate" -> {
                    if (parts.size() == 1 || argument.equals("hadamard")) {
                        return new Rotate(Rotation.Kind.HADAMARD);
                    }
                    if (argument.equals("random")) {
                        return new Rotate(Rotation.Kind.RANDOM);
                    }
                }
                default -> {
                    // refused below
                }
            }
        }
        throw unknown(text);
    }

    private static InvalidOptionException unknown(String text) {
        return new InvalidOptionException("there is no transform '" + text + "'", "transform", "give " + SYNTAX);
    }
}
