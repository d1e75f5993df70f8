package dev.octet.converter.hf;

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
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        Optional<Integer> window = RotaryDecoder.window(config);
        new RotaryDecoder(RotaryDecoder.headSize(config), false, false, false, false, layer -> window)
                .build(config, modelClass.endsWith("ForCausalLM"), draft);
    }
}
