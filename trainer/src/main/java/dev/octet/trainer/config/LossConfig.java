package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * What is made smaller.
 *
 * @param output the graph's output it is computed from; empty for the only one, or {@code logits} where there is one
 * @param labels name of the labels in the data
 * @param ignoreIndex label of positions that do not count
 */
public record LossConfig(
        Type type, Optional<String> output, String labels, long ignoreIndex, Optional<Distillation> distillation) {
    /** Kinds of loss, as torch computes them, averaged over what counts. */
    public enum Type {
        /** Cross-entropy of each position's logits against the next token. */
        CAUSAL_LM,
        /** Cross-entropy of logits against class numbers. */
        CROSS_ENTROPY,
        /** Mean squared difference. */
        MSE,
        /** One minus the cosine of each row with its label. */
        COSINE;

        /** Whether it compares scores of classes with class numbers. */
        public boolean isOverClasses() {
            return this == CAUSAL_LM || this == CROSS_ENTROPY;
        }

        /** The word for it in a configuration. */
        public String key() {
            return name().toLowerCase(Locale.ROOT).replace('_', '-');
        }
    }

    /**
     * Another model's output for the same inputs, as what to come near to.
     *
     * @param teacher the model's file
     * @param weight share of the distance to the teacher in the loss, above 0; the rest is the distance to the labels. With 1 the data needs
     *     no labels
     * @param temperature of class distributions, above 0: their logits are divided by it
     * @param labelled whether labels are read with a weight of 1, too: for which positions count
     */
    public record Distillation(Path teacher, double weight, double temperature, boolean labelled) {}

    private static final Map<String, Type> TYPES = Map.of(
            "causal-lm", Type.CAUSAL_LM, "cross-entropy", Type.CROSS_ENTROPY, "mse", Type.MSE, "cosine", Type.COSINE);

    static LossConfig read(Section s, Path folder) {
        Type type = s.requiredChoice("type", TYPES);
        boolean classes = type.isOverClasses();
        if (!classes && s.has("ignore_index")) {
            throw s.error("ignore_index", "only losses over classes ignore labels", "leave the key out");
        }
        boolean labelled = classes && s.has("labels");
        Optional<Distillation> distillation = s.has("distillation")
                ? Optional.of(s.section("distillation").read(d -> distillation(d, folder, classes, labelled)))
                : Optional.empty();
        return new LossConfig(
                type,
                s.text("output"),
                s.text("labels").orElse("labels"),
                s.whole("ignore_index", -100, Integer.MIN_VALUE, Integer.MAX_VALUE),
                distillation);
    }

    private static Distillation distillation(Section d, Path folder, boolean classes, boolean labelled) {
        Distillation read = new Distillation(
                d.requiredPath("teacher", folder),
                d.number("weight", 1, 0, 1),
                d.number("temperature", 1, 0, Float.MAX_VALUE),
                labelled);
        if ((float) read.weight == 0) {
            throw d.error("weight", "with a weight of 0 nothing is learnt from the teacher", "leave distillation out");
        }
        if (!classes && d.has("temperature")) {
            throw d.error(
                    "temperature",
                    "only distributions over classes have a temperature",
                    "leave the key out, or give type: causal-lm or cross-entropy");
        }
        if ((float) read.temperature == 0) {
            throw d.error("temperature", "logits cannot be divided by 0", "give a number above 0, 1 for none");
        }
        return read;
    }

    /** Whether labels are read from the data. */
    public boolean readsLabels() {
        return distillation.isEmpty()
                || distillation.get().weight() < 1
                || distillation.get().labelled();
    }
}
