package dev.octet.quant.layout;

import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The weights that inference engines fuse into one product, by the last part of their modules' paths; these share scales of whole weights. */
public final class FusedWeights {
    private static final Map<String, String> FUSED = Map.ofEntries(
            Map.entry("q_proj", "qkv_proj"),
            Map.entry("k_proj", "qkv_proj"),
            Map.entry("v_proj", "qkv_proj"),
            Map.entry("query", "qkv"),
            Map.entry("key", "qkv"),
            Map.entry("value", "qkv"),
            Map.entry("gate_proj", "gate_up_proj"),
            Map.entry("up_proj", "gate_up_proj"),
            Map.entry("w1", "w13"),
            Map.entry("w3", "w13"),
            Map.entry("q_a_proj", "fused_qkv_a_proj"),
            Map.entry("kv_a_proj_with_mqa", "fused_qkv_a_proj"));

    private FusedWeights() {}

    /**
     * The path of the fused module; the same for all weights in it. Empty for a module that is not fused.
     *
     * @param module {@code model.layers.0.self_attn.q_proj}; gives {@code model.layers.0.self_attn.qkv_proj}
     */
    public static Optional<String> group(String module) {
        String last = module.substring(module.lastIndexOf('.') + 1);
        String fused = FUSED.get(last);
        return fused == null
                ? Optional.empty()
                : Optional.of(module.substring(0, module.length() - last.length()) + fused);
    }

    /** The last parts of the paths of all modules that are fused with one; only its own if it is not fused. */
    public static List<String> siblings(String module) {
        String last = module.substring(module.lastIndexOf('.') + 1);
        String fused = FUSED.get(last);
        return fused == null
                ? List.of(last)
                : FUSED.entrySet().stream()
                        .filter(e -> e.getValue().equals(fused))
                        .map(Map.Entry::getKey)
                        .sorted()
                        .toList();
    }
}
