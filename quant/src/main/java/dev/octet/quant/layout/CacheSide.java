package dev.octet.quant.layout;

import java.util.List;
import java.util.Locale;

/** The two halves of a KV cache, each quantised with a scale of its own. */
public enum CacheSide {
    /** Keys, as they are cached: after the rotation of positions. */
    K,
    /** Values. */
    V;

    /** As names have it: {@code k}, {@code v}. */
    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }

    /**
     * All names under which readers look for this side's scale, likeliest first: those of compressed-tensors, of vLLM inside, of ModelOpt, of
     * older versions of compressed-tensors, and of AutoFP8, where one scale is for both sides. Source: vLLM
     * {@code model_executor/model_loader/weight_utils.py}, {@code maybe_remap_kv_scale_name}.
     *
     * @param attention path of the attention layer: {@code model.layers.0.self_attn}
     */
    public List<String> names(String attention) {
        String scale = label() + "_scale";
        return List.of(
                attention + "." + scale,
                attention + ".attn." + scale,
                attention + "." + label() + "_proj." + scale,
                attention + ".qkv_proj." + scale,
                attention + "." + label() + "_proj.output_scale",
                attention + ".kv_scale",
                attention + ".attn.kv_scale");
    }
}
