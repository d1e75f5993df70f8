package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/** Mistral: Llama without biases, whose layers may all see a window of positions only. Source: transformers/models/mistral. */
final class MistralArchitecture implements Architecture {
    @Override
    public String modelType() {
        return "mistral";
    }

    @Override
    public List<String> classes() {
        return List.of("MistralForCausalLM", "MistralModel");
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
        List<ObjectNode> all = t.headNorms() ? List.of() : RotaryDecoder.candidates(this, t);
        for (ObjectNode config : all) {
            if (t.window().isPresent()) {
                config.put("sliding_window", t.window().getAsInt());
            } else {
                config.putNull("sliding_window");
            }
        }
        return all;
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        Optional<Integer> window = RotaryDecoder.window(config);
        new RotaryDecoder(RotaryDecoder.headSize(config), false, false, false, false, layer -> window)
                .build(config, modelClass.endsWith("ForCausalLM"), draft);
    }
}
