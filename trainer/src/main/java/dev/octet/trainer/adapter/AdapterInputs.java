package dev.octet.trainer.adapter;

import dev.octet.formats.tensor.Tensor;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What an adapter needs from outside of the configuration and the graph.
 *
 * @param baseModel path or name of the model, as {@code adapter_config.json} names its base
 * @param tensors elements of the adapter that is continued, by PEFT's keys; empty for a new one
 * @param promptTokens tokens of {@code prompt_tuning_init_text}; empty without one
 */
public record AdapterInputs(String baseModel, Map<String, Tensor> tensors, List<Long> promptTokens) {
    /** Of a run without an adapter, or of a new adapter that needs nothing. */
    public static final AdapterInputs NONE = new AdapterInputs("", Map.of(), List.of());

    public AdapterInputs {
        tensors = new TreeMap<>(tensors);
        promptTokens = List.copyOf(promptTokens);
    }
}
