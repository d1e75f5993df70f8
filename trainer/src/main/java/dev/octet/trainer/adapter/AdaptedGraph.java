package dev.octet.trainer.adapter;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.peft.TargetModules;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;

/**
 * A canonical graph with an adapter in it.
 *
 * @param model the base's graph with the adapter's nodes; the adapter's parameters are constants of it, with the values they start from
 * @param keys names of the trained constants, each with its key in PEFT's {@code adapter_model.safetensors}, in the order of the graph
 * @param config of the adapter, with the targets that were chosen where the run's configuration named none
 * @param subtracted by path of a module: names of frozen constants A [r, in] and B [out, r] whose product, scaled as the adapter's, is taken off the base
 * @param title method, sizes and targets in a few words, such as {@code LoRA r 8 on 24 Linears}
 * @param encoder names of trained constants that PEFT's file does not have: the network that P-tuning computes its virtual tokens with
 * @param computed graphs without inputs and with one output: what PEFT's file has in place of the encoder, by key
 * @param virtualTokens how many rows the adapter puts in front of each sample's tokens, in outputs too; 0 for none
 */
public record AdaptedGraph(
        GraphModel model,
        Map<String, String> keys,
        PeftConfig config,
        Map<String, List<String>> subtracted,
        String title,
        Set<String> encoder,
        Map<String, GraphModel> computed,
        int virtualTokens) {
    /** The PEFT whose files these are. */
    private static final String PEFT_VERSION = "0.21.0";

    private static final String TARGETS = "target_modules";
    private static final String ALPHA = "lora_alpha";

    public AdaptedGraph {
        keys = Collections.unmodifiableMap(new LinkedHashMap<>(keys));
        subtracted = Collections.unmodifiableMap(new LinkedHashMap<>(subtracted));
        encoder = Collections.unmodifiableSet(new LinkedHashSet<>(encoder));
        computed = Collections.unmodifiableMap(new LinkedHashMap<>(computed));
    }

    /** Names of the constants that are trained; all others are frozen. */
    public Set<String> trained() {
        Set<String> trained = new LinkedHashSet<>(keys.keySet());
        trained.addAll(encoder);
        return trained;
    }

    /**
     * What {@code adapter_config.json} says: all that PEFT writes, and the modules by name where the configuration leaves the choice open.
     *
     * @param own the adapter's configuration, as {@link #files} has it
     * @param baseModel path or name of the base
     * @param task PEFT's type of the task, unless the configuration names one
     */
    public PeftConfig savedConfig(PeftConfig own, String baseModel, String task) {
        ObjectNode json = own.withDefaults().json();
        if (own.baseModel().isEmpty() && !baseModel.isEmpty()) {
            json.put("base_model_name_or_path", baseModel);
        }
        if (own.taskType().isEmpty() && !task.isEmpty()) {
            json.put("task_type", task);
        }
        json.put("inference_mode", true);
        if (!json.hasNonNull("peft_version")) {
            json.put("peft_version", PEFT_VERSION);
        }
        if (json.path(ALPHA).isDouble()
                && json.path(ALPHA).doubleValue() == json.path(ALPHA).intValue()) {
            json.put(ALPHA, json.path(ALPHA).intValue()); // a whole number, as PEFT's own type says
        }
        boolean open =
                !json.hasNonNull(TARGETS) || json.get(TARGETS).asText().equalsIgnoreCase(TargetModules.ALL_LINEAR);
        Set<String> targets = targets();
        if (open && !targets.isEmpty()) {
            ArrayNode list = json.putArray(TARGETS);
            shortest(targets).forEach(list::add);
        }
        return PeftConfig.of(json, own.where());
    }

    /** Paths of the modules that have tensors of the adapter. */
    private Set<String> targets() {
        Set<String> targets = new TreeSet<>();
        for (String key : keys.values()) {
            PeftKeys.Place place = PeftKeys.parse(key);
            if (place.role() != PeftRole.SAVED && place.role() != PeftRole.PROMPT) {
                targets.add(place.module());
            }
        }
        return targets;
    }

    /** The last names of modules where these match no others, else their paths. */
    private Set<String> shortest(Set<String> targets) {
        Set<String> last = new TreeSet<>();
        targets.forEach(t -> last.add(t.substring(t.lastIndexOf('.') + 1)));
        Predicate<String> matches = path -> last.contains(path.substring(path.lastIndexOf('.') + 1));
        Set<String> others = new HashSet<>(BaseModules.of(model.graph()).kinds().keySet());
        others.removeAll(targets);
        return others.stream().anyMatch(matches) ? targets : last;
    }

    /**
     * What a PEFT folder of the adapter holds.
     *
     * @param config {@code adapter_config.json}
     * @param tensors {@code adapter_model.safetensors}, by key
     */
    public record Files(PeftConfig config, Map<String, Tensor> tensors) {
        public Files {
            tensors = Collections.unmodifiableMap(new LinkedHashMap<>(tensors));
        }
    }

    /**
     * The adapter as PEFT reads it over the unchanged base. A module that started from a part of its weight (PiSSA, OLoRA) becomes a LoRA of twice the rank:
     * the trained product less the one it started from, as {@code path_initial_model_for_weight_conversion} of PEFT's {@code save_pretrained} writes it.
     *
     * @param values of the trained constants, F32, by their names; other names are ignored
     * @param arena of the tensors that are made
     */
    public Files files(Map<String, Tensor> values, Arena arena) {
        return new PeftFiles(this, values, arena).files();
    }
}
