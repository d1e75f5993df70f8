package dev.octet.trainer.adapter;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftType;
import dev.octet.formats.peft.TargetModules;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * What {@code adapter:} in a run's configuration says.
 *
 * @param config as {@code adapter_config.json} has it, with PEFT's names and defaults
 * @param from PEFT folder of the adapter that is trained on; empty for a new one
 * @param seed of dropout
 */
public record AdapterSettings(PeftConfig config, Optional<Path> from, long seed) {
    /** Of an adapter that is run rather than trained: dropout drops nothing. */
    public AdapterSettings(PeftConfig config, Optional<Path> from) {
        this(config, from, 0);
    }

    /** The text whose tokens a new prompt begins with; empty for other methods and beginnings. */
    public Optional<String> initText() {
        return config.type() == PeftType.PROMPT_TUNING ? config.prompt().promptTuningInitText() : Optional.empty();
    }

    /**
     * The graph of a base with the adapter in it.
     *
     * @param base canonical, with concrete or open shapes, ties restored
     * @param initial where the adapter's parameters start
     * @throws InvalidOptionException when targets match nothing, or a rank is larger than a dimension
     * @throws dev.octet.formats.error.InvalidDataException when an adapter that is continued has other parameters
     */
    public AdaptedGraph adapt(GraphModel base, InitialValues initial) {
        return adapt(base, initial, List.of());
    }

    /**
     * The graph, as {@link #adapt(GraphModel, InitialValues)}.
     *
     * @param promptTokens tokens of {@link #initText}
     */
    public AdaptedGraph adapt(GraphModel base, InitialValues initial, List<Long> promptTokens) {
        AdapterEdit edit = new AdapterEdit(base, initial);
        if (config.type().isPrompt()) {
            PeftConfig sized = new Prompts(edit, config, promptTokens).apply();
            return edit.build(sized, Prompts.title(sized));
        }
        AdapterSettings full = withTargets(edit.modules());
        String title = full.add(edit);
        new SavedModules(full, edit).apply();
        return edit.build(full.config, title);
    }

    /** Whether training computes with the weights that the merged file will have. */
    public boolean isMergeAware() {
        return config.has(MergeAwareness.STAMP);
    }

    /** This with another configuration. */
    public AdapterSettings withConfig(PeftConfig other) {
        return new AdapterSettings(other, from, seed);
    }

    private String add(AdapterEdit edit) {
        return switch (config.type()) {
            case LORA -> lora(edit, config.lora());
            case IA3 -> {
                Targets targets = targets(edit).linearsOnly("IA3", this);
                new Ia3(config.ia3(), edit).apply(targets);
                yield "IA3 on " + targets.counted();
            }
            case LN_TUNING -> {
                Targets targets = targets(edit).normsOnly(this);
                NormTuning.apply(targets, edit);
                yield "LN tuning of " + targets.counted();
            }
            case BOTTLENECK -> new Bottleneck(this, edit).apply();
            case PROMPT_TUNING, P_TUNING, PREFIX_TUNING ->
                throw new IllegalArgumentException(config.type() + " changes no modules");
        };
    }

    private String lora(AdapterEdit edit, LoraConfig lora) {
        if (!lora.targetParameters().isEmpty()) {
            throw new InvalidOptionException(
                    "target_parameters name the stacked weights of experts, which no graph that Octet trains has",
                    where("target_parameters"),
                    "name Linears in target_modules");
        }
        if (lora.hasTrainableTokens() || !lora.foreignKeys().isEmpty()) {
            String key = lora.hasTrainableTokens()
                    ? "trainable_token_indices"
                    : lora.foreignKeys().getFirst();
            throw new InvalidOptionException(
                    "Octet does not compute what " + key + " changes",
                    where(key),
                    "train without it, or serve the adapter with PEFT");
        }
        if (isBiasesOnly(lora)) {
            return new Biases(edit).apply(new Targets(List.of(), List.of(), List.of()), LoraConfig.Bias.ALL, this);
        }
        Targets targets = targets(edit).withoutNorms("LoRA", this);
        Lora method = new Lora(lora, edit, this);
        method.apply(targets);
        String biases = new Biases(edit).apply(targets, lora.bias(), this);
        return method.name() + " " + method.ranks(targets) + " on " + targets.counted()
                + (biases.isEmpty() ? "" : ", " + biases);
    }

    /** Whether this is BitFit: {@code bias: all} without a target. */
    private boolean isBiasesOnly(LoraConfig lora) {
        return lora.bias() == LoraConfig.Bias.ALL
                && config.has("target_modules")
                && lora.targetModules().entries().isEmpty();
    }

    private Targets targets(AdapterEdit edit) {
        return Targets.of(chosen(), edit.modules(), this);
    }

    private TargetModules chosen() {
        return config.targets().orElseThrow();
    }

    /** This with the default targets of the base's family, if it names none. */
    private AdapterSettings withTargets(BaseModules modules) {
        if (config.type().isPrompt() || config.type() == PeftType.BOTTLENECK || config.has("target_modules")) {
            return this;
        }
        List<String> entries = DefaultTargets.of(config.type(), modules);
        if (entries.isEmpty()) {
            throw new InvalidOptionException(
                    "there are no default targets for the modules of this model",
                    where("target_modules"),
                    config.type() == PeftType.LORA
                            ? "set target_modules: all-linear, or list modules as `octet inspect` names them"
                            : "list target_modules as `octet inspect` names them");
        }
        ObjectNode json = config.json();
        ArrayNode list = json.putArray("target_modules");
        entries.forEach(list::add);
        if (config.type() == PeftType.IA3 && !config.has("feedforward_modules")) {
            ArrayNode feedforward = json.putArray("feedforward_modules");
            DefaultTargets.feedforward(entries).forEach(feedforward::add);
        }
        return new AdapterSettings(PeftConfig.of(json, config.where()), from, seed);
    }

    /** Where a key of the section stands, for messages. */
    String where(String key) {
        return config.where() + "." + key;
    }
}
