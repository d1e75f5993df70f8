package dev.octet.trainer.adapter;

import dev.octet.formats.peft.PeftType;
import java.util.List;
import java.util.stream.Stream;

/**
 * Which modules an adapter changes when {@code target_modules} is not given: PEFT's choices for each family of models
 * ({@code utils/constants.py}), found by the names of the modules rather than by the name of the family.
 */
final class DefaultTargets {
    private static final List<List<String>> LORA = List.of(
            List.of("q_proj", "v_proj"), List.of("c_attn"), List.of("query_key_value"), List.of("query", "value"));
    private static final List<List<String>> IA3 = List.of(
            List.of("k_proj", "v_proj", "down_proj"),
            List.of("c_attn", "mlp.c_proj"),
            List.of("query_key_value", "dense_4h_to_h"),
            List.of("key", "value", "output.dense"));
    private static final List<String> ATTENTION_OUTPUTS =
            List.of("self_attn.o_proj", "attn.c_proj", "attention.output.dense", "self_attn.out_proj");
    private static final List<String> FEEDFORWARD_OUTPUTS =
            List.of("down_proj", "mlp.c_proj", "output.dense", "dense_4h_to_h", "fc2");

    private DefaultTargets() {}

    /** Entries of {@code target_modules}; empty when the model has none of the known names. */
    static List<String> of(PeftType type, BaseModules modules) {
        return switch (type) {
            case LORA -> first(LORA, modules);
            case IA3 -> first(IA3, modules);
            case LN_TUNING -> modules.norms();
            case BOTTLENECK, PROMPT_TUNING, P_TUNING, PREFIX_TUNING -> List.of();
        };
    }

    /** Which of IA3's targets multiply their input. */
    static List<String> feedforward(List<String> targets) {
        return targets.stream().filter(FEEDFORWARD_OUTPUTS::contains).toList();
    }

    /** Linears that end the attention of each layer. */
    static List<String> attentionOutputs(BaseModules modules) {
        return named(modules)
                .filter(n -> ATTENTION_OUTPUTS.stream().anyMatch(o -> endsWith(n, o)))
                .toList();
    }

    /** Linears that end the feedforward part of each layer. */
    static List<String> feedforwardOutputs(BaseModules modules) {
        return named(modules)
                .filter(n -> FEEDFORWARD_OUTPUTS.stream().anyMatch(o -> endsWith(n, o))
                        && ATTENTION_OUTPUTS.stream().noneMatch(o -> endsWith(n, o)))
                .toList();
    }

    private static List<String> first(List<List<String>> families, BaseModules modules) {
        return families.stream()
                .filter(f -> f.stream().allMatch(e -> named(modules).anyMatch(n -> endsWith(n, e))))
                .findFirst()
                .orElse(List.of());
    }

    private static Stream<String> named(BaseModules modules) {
        return modules.linears().stream().map(m -> m.name()).distinct();
    }

    private static boolean endsWith(String path, String entry) {
        return path.equals(entry) || path.endsWith("." + entry);
    }
}
