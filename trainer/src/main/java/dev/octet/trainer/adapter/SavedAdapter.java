package dev.octet.trainer.adapter;

import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * An adapter as a PEFT folder has it.
 *
 * @param config all that {@code adapter_config.json} says
 * @param keys names of the trained parameters that are in {@code adapter_model.safetensors}, each with its key there
 * @param computed tensors of that file that are computed from parameters, by key: the virtual tokens of P-tuning, whose network is not saved; LoRAs of twice the
 *     rank, of modules that started from a part of their weight
 */
public record SavedAdapter(PeftConfig config, Map<String, String> keys, Map<String, Tensor> computed) {
    public SavedAdapter {
        keys = Collections.unmodifiableMap(new LinkedHashMap<>(keys));
        computed = Collections.unmodifiableMap(new TreeMap<>(computed));
    }

    /**
     * The tensors of the folder, by key.
     *
     * @param parameters trained parameters, by name, all of {@link #keys} among them
     */
    public Map<String, Tensor> tensors(Map<String, Tensor> parameters) {
        Map<String, Tensor> tensors = new TreeMap<>(computed);
        keys.forEach((name, key) -> {
            Tensor tensor = parameters.get(name);
            if (tensor == null) {
                throw new IllegalArgumentException("'" + name + "' is not among " + parameters.keySet());
            }
            tensors.put(key, new Tensor(new TensorSpec(key, tensor.dtype(), tensor.shape()), tensor.bytes()));
        });
        return tensors;
    }
}
