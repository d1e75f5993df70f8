package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.AttentionScheme;
import dev.octet.quant.layout.CompressedTensorsConfig;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutContents;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.recipe.Recipe;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Collects, weight by weight, what the target's configuration must state of its weights, then writes it. */
final class TargetConfig {
    /** A class of transformers; the first group is what all classes of the family begin with. */
    private static final Pattern MODEL_CLASS = Pattern.compile("(\\w+?)(For[A-Z]\\w*|LMHeadModel|Model)");

    private static final Set<String> PROJECTIONS = Set.of("k_proj", "v_proj", "qkv_proj", "kv_b_proj");

    private final Checkpoint checkpoint;
    private final @Nullable Layout layout;
    private final DType plainType;
    private final List<StoredWeight> quantized = new ArrayList<>();
    private final Set<String> keptLinears = new LinkedHashSet<>();
    private @Nullable Recipe recipe;
    private LayoutOptions options = LayoutOptions.defaults();
    private final boolean mixes;
    private final Map<String, Recipe> others = new LinkedHashMap<>();

    /**
     * Starts with nothing collected.
     *
     * @param checkpoint the source, for messages
     * @param layout of the target; null for plain floats
     * @param plainType of dequantised weights
     * @param mixes whether weights are to have several recipes, where the layout can say so
     */
    TargetConfig(Checkpoint checkpoint, @Nullable Layout layout, DType plainType, boolean mixes) {
        this.mixes = mixes;
        this.checkpoint = checkpoint;
        this.layout = layout;
        this.plainType = plainType;
    }

    /**
     * Adds a quantised weight of the target; one configuration must describe all of them.
     *
     * @throws UnsupportedModelException when an earlier weight was quantised differently
     */
    void add(StoredWeight weight, Recipe itsRecipe, LayoutOptions itsOptions) {
        Recipe first = recipe;
        boolean differs = first != null && !(itsRecipe.equals(first) && itsOptions.equals(options));
        boolean mixed = layout != null && layout.mixes() && mixes && itsOptions.equals(options);
        if (differs && mixed) {
            quantized.add(weight);
            others.put(weight.name(), itsRecipe);
            return;
        }
        if (first != null && differs) {
            throw new UnsupportedModelException(
                    "weights are quantised in different ways: "
                            + quantized.getFirst().name() + " as " + way(first, options) + ", " + weight.name()
                            + " as " + way(itsRecipe, itsOptions),
                    checkpoint.path().toString(),
                    "the configuration that Octet writes describes one way for all weights; dequantise the checkpoint,"
                            + " or give --recipe to round all weights by one recipe");
        }
        quantized.add(weight);
        recipe = itsRecipe;
        options = itsOptions;
    }

    private static String way(Recipe recipe, LayoutOptions options) {
        return recipe.name() + (options.staticInputs() ? " with static inputs" : "");
    }

    /** Adds a plain matrix if a consumer may take it for a Linear; the configuration then lists it as not quantised. */
    void keep(String name, Shape shape) {
        if (LinearNames.role(name, shape) == TensorRole.FUSED_EXPERTS || LinearNames.mayBeLinear(name, shape)) {
            keptLinears.add(StoredWeight.moduleOf(name));
        }
    }

    /**
     * All unquantised Linear modules under the names that consumers may use: first the modules of the checkpoint under their own and other
     * names, then those without a tensor, for example tied heads.
     */
    private List<String> keptLinears(LinearModules modules) {
        Set<String> stored = new LinkedHashSet<>();
        for (String name : checkpoint.tensors().keySet()) {
            if (name.endsWith(".weight")) {
                stored.add(StoredWeight.moduleOf(name));
            }
        }
        quantized.forEach(w -> stored.add(w.module()));
        Set<String> names = new LinkedHashSet<>();
        for (String kept : keptLinears) {
            names.add(kept);
            modules.otherNames(kept, stored).stream()
                    .filter(n -> !stored.contains(n))
                    .forEach(names::add);
        }
        names.addAll(modules.unstored(stored));
        return List.copyOf(names);
    }

    /**
     * Edits {@code config.json} so that it describes the target.
     *
     * @param config of the source; changed by this method; empty if the source has none
     * @param attention how the attention of the target is quantised
     * @param notes gets notes for the user
     * @return other files to write next to it, by name
     * @throws UnsupportedModelException when queries have scales, and readers find no attention in models of this class to apply them
     */
    Map<String, ObjectNode> describe(Optional<ObjectNode> config, AttentionScheme attention, List<String> notes) {
        Map<String, ObjectNode> files = new LinkedHashMap<>();
        ObjectNode edited = config.orElseGet(() -> new ObjectNode(JsonNodeFactory.instance));
        List<String> attentionClasses = attention.queries() ? attentionClasses(edited) : List.of();
        edited.remove("quantization_config");
        edited.remove("compression_config");
        if (layout != null && recipe != null) {
            LayoutContents contents = new LayoutContents(
                    recipe,
                    options,
                    quantized,
                    keptLinears(LinearModules.of(edited)),
                    attention,
                    attentionClasses,
                    others);
            files.putAll(layout.configure(edited, contents));
        } else {
            setType(edited);
        }
        if (attention != AttentionScheme.NONE && layout != null && !layout.configuresCache()) {
            notes.add("config.json does not show that the KV cache has scales: start vLLM with --kv-cache-dtype fp8");
        }
        if (config.isEmpty()) {
            notes.add("there is no config.json, so none is written: consumers will not know how the weights are"
                    + " quantised");
            files.clear();
        }
        return files;
    }

    /** Those that the source's own configuration names, else the one of the architecture. */
    private List<String> attentionClasses(ObjectNode config) {
        List<String> own = CompressedTensorsConfig.in(config)
                .map(CompressedTensorsConfig::attentionClasses)
                .orElse(List.of());
        return own.isEmpty() ? List.of(attentionClass(config)) : own;
    }

    /**
     * The class that attends in a model: {@code LlamaAttention} for {@code LlamaForCausalLM}. Readers take a module for attention whose class is called
     * so and that has one of {@link #PROJECTIONS} (compressed-tensors, {@code quantization/lifecycle/initialize.py},
     * {@code is_cached_attention_module}).
     */
    private String attentionClass(ObjectNode config) {
        String architecture = config.path("architectures").path(0).asText("");
        Matcher model = MODEL_CLASS.matcher(architecture);
        if (!model.matches()) {
            throw refused(
                    architecture.isEmpty()
                            ? "config.json names no class in architectures, after which the class of its attention is"
                                    + " called"
                            : "the class of the attention in " + architecture + " is unknown");
        }
        boolean found = checkpoint.tensors().keySet().stream()
                .map(StoredWeight::moduleOf)
                .anyMatch(m -> PROJECTIONS.contains(m.substring(m.lastIndexOf('.') + 1)));
        if (!found) {
            throw refused("readers know the attention whose queries they quantise by its k_proj, and " + architecture
                    + " has none");
        }
        return model.group(1) + "Attention";
    }

    private UnsupportedModelException refused(String what) {
        return new UnsupportedModelException(
                what,
                checkpoint.folder().resolve("config.json").toString(),
                "leave the queries in floats: " + AttentionScheme.CACHE.option() + ", or "
                        + AttentionScheme.CACHE_PER_HEAD.option());
    }

    private void setType(ObjectNode config) {
        String name = switch (plainType) {
            case F32 -> "float32";
            case F16 -> "float16";
            default -> "bfloat16";
        };
        for (String key : List.of("torch_dtype", "dtype")) {
            if (config.has(key)) {
                config.put(key, name);
            }
        }
    }
}
