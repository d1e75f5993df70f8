package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.regex.Pattern;

/** Qwen2 and Qwen2.5: Llama with biases on q, k and v, and windows in some layers. Source: transformers/models/qwen2. */
final class Qwen2Architecture implements Architecture {
    @Override
    public String modelType() {
        return "qwen2";
    }

    @Override
    public List<String> classes() {
        return List.of("Qwen2ForCausalLM", "Qwen2Model");
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
        return t.headNorms() || t.window().isPresent() ? List.of() : RotaryDecoder.candidates(this, t);
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        new RotaryDecoder(RotaryDecoder.headSize(config), true, false, false, false, RotaryDecoder.qwenWindow(config))
                .build(config, modelClass.endsWith("ForCausalLM"), draft);
    }
}
