package dev.octet.quant.layout;

import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;

/** What attention multiplies, each quantised with scales of its own. */
public enum AttentionInput {
    /** Queries, after the rotation of positions. */
    Q,
    /** Keys, as they are cached: after the rotation of positions. */
    K,
    /** Values. */
    V;

    /** Those that engines cache. */
    public static final List<AttentionInput> CACHED = List.of(K, V);

    /** As names have it: {@code q}, {@code k}, {@code v}. */
    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }

    /**
     * All names under which readers look for this input's scales, likeliest first: those of compressed-tensors, of vLLM inside, of ModelOpt, of
     * older versions of compressed-tensors, and of AutoFP8, where one scale is for keys and values; queries have the first two alone. Source:
     * vLLM {@code model_executor/model_loader/weight_utils.py}, {@code maybe_remap_kv_scale_name}.
     *
     * @param attention path of the attention layer: {@code model.layers.0.self_attn}
     */
    public List<String> names(String attention) {
        String scale = label() + "_scale";
        List<String> common = List.of(attention + "." + scale, attention + ".attn." + scale);
        return this == Q
                ? common
                : Stream.concat(
                                common.stream(),
                                Stream.of(
                                        attention + "." + label() + "_proj." + scale,
                                        attention + ".qkv_proj." + scale,
                                        attention + "." + label() + "_proj.output_scale",
                                        attention + ".kv_scale",
                                        attention + ".attn.kv_scale"))
                        .toList();
    }
}
