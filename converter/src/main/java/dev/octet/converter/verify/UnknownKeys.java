package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.EnumSet;
import java.util.Set;

/** Fields in schemes that compressed-tensors does not know. */
final class UnknownKeys extends CheckpointRule {
    UnknownKeys() {
        super(
                "unknown-keys",
                Severity.ERROR,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TRANSFORMERS),
                "Schemes and their operands have no fields but their own: compressed-tensors refuses unknown ones.",
                "remove the fields",
                "vllm-project/compressed-tensors:src/compressed_tensors/quantization/quant_scheme.py,"
                        + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/quant_args.py");
    }

    private static final Set<String> SCHEME =
            Set.of("targets", "weights", "input_activations", "output_activations", "format");
    private static final Set<String> OPERAND = Set.of(
            "num_bits",
            "type",
            "symmetric",
            "group_size",
            "strategy",
            "block_structure",
            "dynamic",
            "actorder",
            "scale_dtype",
            "zp_dtype",
            "observer",
            "observer_kwargs");

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.settings().method() != QuantSettings.Method.COMPRESSED_TENSORS) {
            return;
        }
        for (var group : subject.settings().json().path("config_groups").properties()) {
            String path = "config_groups." + group.getKey();
            check(path, group.getValue(), SCHEME, findings);
            for (String operand : new String[] {"weights", "input_activations", "output_activations"}) {
                check(path + "." + operand, group.getValue().path(operand), OPERAND, findings);
            }
        }
    }

    private void check(String path, JsonNode json, Set<String> known, Findings findings) {
        json.properties().forEach(field -> {
            if (!known.contains(field.getKey())) {
                findings.add(this, "a scheme has a field that is not known", path + "." + field.getKey(), "");
            }
        });
    }
}
