package dev.octet.trainer.config;

import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
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
        COSINE
    }

    /**
     * Labels made by another model from the same inputs.
     *
     * @param teacher the model's file
     * @param weight 1: the teacher's output alone is matched, and the data needs no labels
     */
    public record Distillation(Path teacher, double weight) {}

    private static final Map<String, Type> TYPES = Map.of(
            "causal-lm", Type.CAUSAL_LM, "cross-entropy", Type.CROSS_ENTROPY, "mse", Type.MSE, "cosine", Type.COSINE);

    static LossConfig read(Section s, Path folder) {
        Optional<Distillation> distillation = s.has("distillation")
                ? Optional.of(s.section("distillation")
                        .read(d -> new Distillation(
                                folder.resolve(d.requiredText("teacher")), d.number("weight", 1.0, 1.0, 1.0))))
                : Optional.empty();
        LossConfig loss = new LossConfig(
                s.requiredChoice("type", TYPES),
                s.text("output"),
                s.text("labels").orElse("labels"),
                s.whole("ignore_index", -100, Integer.MIN_VALUE, Integer.MAX_VALUE),
                distillation);
        boolean classes = loss.type == Type.CAUSAL_LM || loss.type == Type.CROSS_ENTROPY;
        if (!classes && s.has("ignore_index")) {
            throw s.error("ignore_index", "only losses over classes ignore labels", "leave the key out");
        }
        if (classes && distillation.isPresent()) {
            throw s.error(
                    "distillation",
                    "a teacher's output is matched by mse or cosine",
                    "give type: cosine or mse, and the output to match");
        }
        return loss;
    }
}
