package dev.octet.trainer.adapter;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A canonical graph with an adapter in it.
 *
 * @param model the base's graph with the adapter's nodes; the adapter's parameters are constants of it, with the values they start from
 * @param keys names of the trained constants, each with its key in PEFT's {@code adapter_model.safetensors}, in the order of the graph
 * @param config of the adapter, with the targets that were chosen where the run's configuration named none
 * @param subtracted by path of a module: names of frozen constants A [r, in] and B [out, r] whose product, scaled as the adapter's, is taken off the base
 * @param title method, sizes and targets in a few words, such as {@code LoRA r 8 on 24 Linears}
 */
public record AdaptedGraph(
        GraphModel model,
        Map<String, String> keys,
        PeftConfig config,
        Map<String, List<String>> subtracted,
        String title) {
    public AdaptedGraph {
        keys = Collections.unmodifiableMap(new LinkedHashMap<>(keys));
        subtracted = Collections.unmodifiableMap(new LinkedHashMap<>(subtracted));
    }

    /** Names of the constants that are trained; all others are frozen. */
    public Set<String> trained() {
        return keys.keySet();
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
