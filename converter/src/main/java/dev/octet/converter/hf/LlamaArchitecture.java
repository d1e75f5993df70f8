package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/** Llama 1 to 3 and what calls itself so. Source: transformers/models/llama. */
final class LlamaArchitecture implements Architecture {
    @Override
    public String modelType() {
        return "llama";
    }

    @Override
    public List<String> classes() {
        return List.of("LlamaForCausalLM", "LlamaModel");
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
        if (t.headNorms() || t.window().isPresent()) {
            return List.of();
        }
        List<ObjectNode> all = new ArrayList<>();
        for (ObjectNode config : RotaryDecoder.candidates(this, t)) {
            for (boolean attention : new boolean[] {false, true}) {
                for (boolean mlp : new boolean[] {false, true}) {
                    all.add(config.deepCopy().put("attention_bias", attention).put("mlp_bias", mlp));
                }
            }
        }
        return all;
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        boolean bias = config.flag(false, "attention_bias");
        new RotaryDecoder(
                        RotaryDecoder.headSize(config),
                        bias,
                        bias,
                        config.flag(false, "mlp_bias"),
                        false,
                        layer -> Optional.empty())
                .build(config, modelClass.endsWith("ForCausalLM"), draft);
    }
}
