package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/** Qwen3: heads of q and k are normalised before they are turned; heads of a size of their own. Source: transformers/models/qwen3. */
final class Qwen3Architecture implements Architecture {
    /** Qwen3Config's default, whatever the hidden size. */
    private static final int HEAD_SIZE = 128;

    @Override
    public String modelType() {
        return "qwen3";
    }

    @Override
    public List<String> classes() {
        return List.of("Qwen3ForCausalLM", "Qwen3Model");
    }

    @Override
    public String prefix() {
        return RotaryDecoder.PREFIX;
    }

    @Override
    public List<Pattern> ignored() {
        return RotaryDecoder.IGNORED;
    }

    @Override
    public List<String> unseen() {
        return RotaryDecoder.UNSEEN;
    }

    @Override
    public List<ObjectNode> candidates(GraphTraits t) {
        if (!t.headNorms() || t.window().isPresent()) {
            return List.of();
        }
        List<ObjectNode> all = new ArrayList<>();
        for (ObjectNode config : RotaryDecoder.candidates(this, t)) {
            all.add(config.deepCopy().put("attention_bias", false));
            all.add(config.put("attention_bias", true));
        }
        return all;
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        boolean bias = config.flag(false, "attention_bias");
        new RotaryDecoder(
                        config.sizeOr(HEAD_SIZE, "head_dim"), bias, bias, false, true, RotaryDecoder.qwenWindow(config))
                .build(config, modelClass.endsWith("ForCausalLM"), draft);
    }
}
