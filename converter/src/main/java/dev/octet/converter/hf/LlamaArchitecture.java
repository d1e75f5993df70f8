package dev.octet.converter.hf;

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
