package dev.octet.trainer.config;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.trainer.yaml.Section;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;

/**
 * The loss to minimise.
 *
 * @param output graph output that the loss is computed from; empty for {@code logits} if there is one, else the only output
 * @param labels name of the labels in the data
 * @param ignoreIndex label of positions that are not counted
 * @param preference how answers are compared; for {@link Type#DPO} only
 * @param labelSmoothing share of the target that all classes have alike, above 0 and at most 1; of losses over classes only
 * @param router what the routers of a mixture of experts add; empty where they are trained by the loss of the output alone
 */
public record LossConfig(
        Type type,
        Optional<String> output,
        String labels,
        long ignoreIndex,
        Optional<Distillation> distillation,
        Preference preference,
        OptionalDouble labelSmoothing,
        Optional<Routers> router) {
    /** A loss from labels or a teacher. */
    public LossConfig(
            Type type, Optional<String> output, String labels, long ignoreIndex, Optional<Distillation> distillation) {
        this(
                type,
                output,
                labels,
                ignoreIndex,
                distillation,
                Preference.DEFAULT,
                OptionalDouble.empty(),
                Optional.empty());
    }

    /** The same with terms of routers. */
    public LossConfig withRouters(Routers terms) {
        return new LossConfig(
                type, output, labels, ignoreIndex, distillation, preference, labelSmoothing, Optional.of(terms));
    }

    /** Kinds of loss, as in torch, averaged over the counted positions. */
    public enum Type {
        /** Cross-entropy of each position's logits against the next token. */
        CAUSAL_LM,
        /** Cross-entropy of logits against class numbers. */
        CROSS_ENTROPY,
        /** Mean squared difference. */
        MSE,
        /** One minus the cosine similarity of each row with its label. */
        COSINE,
        /** Direct preference optimization: how much more likely than before the preferred answer became, compared with the refused one. */
        DPO;

        /** Whether the loss compares class scores with class numbers. */
        public boolean isOverClasses() {
            return this == CAUSAL_LM || this == CROSS_ENTROPY || this == DPO;
        }

        /** Its name in a configuration. */
        public String key() {
            return name().toLowerCase(Locale.ROOT).replace('_', '-');
        }
    }

    /**
     * Distillation: the output of another model for the same inputs is the target.
     *
     * @param teacher file of the model
     * @param weight share of the distance to the teacher in the loss, above 0; the rest is the distance to the labels. With 1 the data
     *     needs no labels
     * @param temperature divides the logits of both models before the softmax, above 0
     * @param labelled whether labels are read even with a weight of 1, to determine which positions count
     */
    public record Distillation(Path teacher, double weight, double temperature, boolean labelled) {}

    /**
     * Direct preference optimization (Rafailov et al. 2023, arXiv:2305.18290) with TRL's names and defaults.
     *
     * @param beta above 0: how much the difference of log-probabilities weighs
     * @param labelSmoothing share of pairs whose answers are taken to be swapped, from 0 to below 0.5 (Mitchell 2023, conservative DPO)
     */
    public record Preference(double beta, double labelSmoothing) {
        /** TRL's. */
        public static final Preference DEFAULT = new Preference(0.1, 0);
    }

    /**
     * Terms of the routers of a mixture of experts, by what they are multiplied with; 0 for none.
     *
     * @param balance of the experts, as transformers' {@code router_aux_loss_coef}
     * @param z of the scores' size, as {@code router_z_loss_coef}
     */
    public record Routers(double balance, double z) {}

    private static final String LOGITS = "logits";
    private static final String SMOOTHING = "label_smoothing";
    private static final Map<String, Type> TYPES = Map.of(
            "causal-lm",
            Type.CAUSAL_LM,
            "cross-entropy",
            Type.CROSS_ENTROPY,
            "mse",
            Type.MSE,
            "cosine",
            Type.COSINE,
            "dpo",
            Type.DPO);

    static LossConfig read(Section s, Path folder) {
        Type type = s.requiredChoice("type", TYPES);
        boolean classes = type.isOverClasses();
        if (!classes && s.has("ignore_index")) {
            throw s.error("ignore_index", "only losses over classes ignore labels", "leave the key out");
        }
        if (type == Type.DPO && s.has("distillation")) {
            throw s.error("distillation", "pairs of answers are compared with the model itself", "leave the key out");
        }
        if (type != Type.DPO && s.has("beta")) {
            throw s.error("beta", "only type: dpo has a beta", "leave the key out");
        }
        if (!classes && s.has(SMOOTHING)) {
            throw s.error(SMOOTHING, "only losses over classes have a label_smoothing", "leave the key out");
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
                distillation,
                type == Type.DPO ? preference(s) : Preference.DEFAULT,
                type == Type.DPO ? OptionalDouble.empty() : smoothing(s, distillation),
                s.has("router") ? Optional.of(s.section("router").read(r -> routers(r, type))) : Optional.empty());
    }

    private static Routers routers(Section r, Type type) {
        if (type == Type.DPO) {
            throw r.error("balance", "a loss of pairs has no terms of routers", "leave router out");
        }
        Routers read = new Routers(r.number("balance", 0, 0, Float.MAX_VALUE), r.number("z", 0, 0, Float.MAX_VALUE));
        if ((float) read.balance == 0 && (float) read.z == 0) {
            throw r.error("balance", "with balance and z of 0 routers add nothing", "leave router out");
        }
        return read;
    }

    private static OptionalDouble smoothing(Section s, Optional<Distillation> distillation) {
        double smoothing = s.number(SMOOTHING, 0, 0, 1);
        if (smoothing > 0 && distillation.isPresent() && distillation.get().weight() == 1) {
            throw s.error(
                    SMOOTHING,
                    "with a distillation weight of 1 no label is a target",
                    "leave the key out, or give distillation: {weight: 0.5}");
        }
        return smoothing == 0 ? OptionalDouble.empty() : OptionalDouble.of(smoothing);
    }

    private static Preference preference(Section s) {
        Preference read = new Preference(s.number("beta", 0.1, 0, Float.MAX_VALUE), s.number(SMOOTHING, 0, 0, 0.5));
        if ((float) read.beta == 0) {
            throw s.error("beta", "with a beta of 0 nothing is learnt", "give a number above 0, such as 0.1");
        }
        if (read.labelSmoothing == 0.5) {
            throw s.error(SMOOTHING, "half of the pairs swapped say nothing", "give a number below 0.5");
        }
        return read;
    }

    private static Distillation distillation(Section d, Path folder, boolean classes, boolean labelled) {
        Distillation read = new Distillation(
                d.requiredPath("teacher", folder),
                d.number("weight", 1, 0, 1),
                d.number("temperature", 1, 0, Float.MAX_VALUE),
                labelled);
        if ((float) read.weight == 0) {
            throw d.error("weight", "with a weight of 0 the teacher has no effect", "leave distillation out");
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

    /**
     * Name of the output that the loss is computed from.
     *
     * @throws InvalidOptionException when there is no such output, or several and the configuration names none
     */
    public String outputOf(GraphModel model) {
        List<String> outputs =
                model.graph().outputs().stream().map(ValueInfo::name).toList();
        if (output.isPresent()) {
            String name = output.get();
            if (!outputs.contains(name)) {
                throw new InvalidOptionException(
                        "the graph has no output '" + name + "'", "loss: {output: ...}", Nearest.advice(name, outputs));
            }
            return name;
        }
        if (outputs.size() == 1 || outputs.contains(LOGITS)) {
            return outputs.contains(LOGITS) ? LOGITS : outputs.getFirst();
        }
        throw new InvalidOptionException(
                "the graph has the outputs " + outputs,
                "loss: {output: ...}",
                "choose the output that the loss is computed from");
    }

    /** Whether the loss reads labels from the data. */
    public boolean readsLabels() {
        return distillation.isEmpty()
                || distillation.get().weight() < 1
                || distillation.get().labelled();
    }
}
