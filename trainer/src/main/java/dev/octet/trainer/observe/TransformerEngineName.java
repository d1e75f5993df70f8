package dev.octet.trainer.observe;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What Linears of a decoder or encoder layer are called inside Transformer Engine's {@code TransformerLayer}:
 * {@code model.layers.0.self_attn.o_proj} is {@code model.layers.0.self_attn.proj}. Some of its modules hold what are several Linears in Hugging
 * Face models; their names are known, too, but name no single Linear.
 *
 * @param layer the layer with its number, as Hugging Face has it: {@code model.layers.0}
 * @param parts names behind it, without the dot
 * @param whole whether the module is this Linear alone
 */
public record TransformerEngineName(String layer, List<String> parts, boolean whole) {
    private static final Pattern IN_LAYER = Pattern.compile("(.*?\\.\\d+)\\.(.*)");

    private static final List<String> QKV = List.of("self_attn.layernorm_linear_qkv", "self_attn.linear_qkv");
    private static final List<String> OUT = List.of("self_attn.proj");
    private static final List<String> FC1 = List.of("layernorm_mlp.fc1");
    private static final List<String> FC2 = List.of("layernorm_mlp.fc2");

    /** Modules of a layer that are one Linear in both. */
    private static final Map<String, List<String>> ONE = ones();

    /** Modules of a layer that are part of one of Transformer Engine's. */
    private static final Map<String, List<String>> PART = partial();

    private static Map<String, List<String>> ones() {
        Map<String, List<String>> all = new LinkedHashMap<>();
        for (String name : List.of("attn.c_attn", "self_attn.qkv_proj", "attention.query_key_value")) {
            all.put(name, QKV);
        }
        for (String name : List.of(
                "self_attn.o_proj", "self_attn.out_proj", "attn.c_proj", "attention.output.dense", "attention.dense")) {
            all.put(name, OUT);
        }
        for (String name : List.of("mlp.c_fc", "mlp.fc1", "fc1", "intermediate.dense", "mlp.gate_up_proj")) {
            all.put(name, FC1);
        }
        for (String name : List.of("mlp.down_proj", "mlp.c_proj", "mlp.fc2", "fc2", "output.dense")) {
            all.put(name, FC2);
        }
        return all;
    }

    private static Map<String, List<String>> partial() {
        Map<String, List<String>> all = new LinkedHashMap<>();
        for (String name : List.of("q_proj", "k_proj", "v_proj")) {
            all.put("self_attn." + name, QKV);
        }
        for (String name : List.of("query", "key", "value")) {
            all.put("attention.self." + name, QKV);
            all.put("attention.attention." + name, QKV);
        }
        all.put("mlp.gate_proj", FC1);
        all.put("mlp.up_proj", FC1);
        return all;
    }

    public TransformerEngineName {
        parts = List.copyOf(parts);
    }

    /** The names of a module; none of one that is not in a layer, or in one of another kind. */
    public static List<TransformerEngineName> of(String module) {
        Matcher m = IN_LAYER.matcher(module);
        List<TransformerEngineName> names = new ArrayList<>();
        if (m.matches()) {
            String layer = m.group(1);
            String inside = m.group(2);
            if (ONE.containsKey(inside)) {
                names.add(new TransformerEngineName(layer, ONE.get(inside), true));
            } else if (PART.containsKey(inside)) {
                names.add(new TransformerEngineName(layer, PART.get(inside), false));
            }
        }
        return names;
    }

    /** The names as Transformer Engine has them where its layers are called as here: {@code model.layers.0.self_attn.proj}. */
    public List<String> full() {
        return parts.stream().map(p -> layer + "." + p).toList();
    }

    /** Whether a section names the module by this name. */
    boolean isSelected(LayerSelection layers) {
        return parts.stream().anyMatch(p -> switch (layers) {
            case LayerSelection.Exact exact -> exact.names().stream().anyMatch(name -> isNamed(name, p));
            case LayerSelection.Regex regex -> regex.selects(layer + "." + p);
            case LayerSelection.Kinds kinds -> kinds.selects(layer + "." + p);
        });
    }

    /** Whether a full name of Transformer Engine's means this module: users name layers as they like, their numbers are the same. */
    boolean isNamed(String name, String part) {
        if (!name.endsWith("." + part)) {
            return false;
        }
        String prefix = name.substring(0, name.length() - part.length() - 1);
        return prefix.equals(layer)
                || (digits(prefix).equals(digits(layer)) && !digits(layer).isEmpty());
    }

    private static String digits(String text) {
        return text.replaceAll("\\D+", " ").strip();
    }
}
