package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.checkpoint.TensorRole;
import java.util.EnumSet;
import org.jspecify.annotations.Nullable;

/** Experts in one tensor of codes, whose scales transformers does not fold in. */
final class ExpertsFused extends CheckpointRule {
    ExpertsFused() {
        super(
                "experts-fused",
                Severity.WARNING,
                EnumSet.of(Consumer.TRANSFORMERS),
                "Experts of an fp8 checkpoint have a module each: without a GPU for FP8, transformers dequantises"
                    + " while it loads, but not tensors of all experts, whose codes it takes for values. Those of a"
                    + " Llama 4 in compressed-tensors have one each, too: transformers finds no others and starts with"
                    + " random ones.",
                "store each expert on its own (experts.0.gate_proj.weight), as transformers saves them",
                "huggingface/transformers:src/transformers/quantizers/quantizer_finegrained_fp8.py,"
                        + " huggingface/transformers:src/transformers/quantizers/base.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.settings().method() == QuantSettings.Method.COMPRESSED_TENSORS && isLlama4(subject.config())) {
            subject.checkpoint().tensors().values().stream()
                    .filter(t -> LinearNames.role(t.name(), t.shape()) == TensorRole.FUSED_EXPERTS)
                    .forEach(t -> findings.add(
                            this,
                            Severity.ERROR,
                            consumers(),
                            "experts of a Llama 4 are in one tensor, and each is a Linear of its own under"
                                    + " compressed-tensors",
                            t.name(),
                            t.shape().toString()));
            return;
        }
        if (subject.settings().method() != QuantSettings.Method.FP8) {
            return;
        }
        subject.quantized()
                .filter(l -> l.isParameter() && l.role() == TensorRole.FUSED_EXPERTS)
                .forEach(l -> findings.add(
                        this,
                        "experts are in one tensor",
                        l.weightName(),
                        l.shape().toString()));
    }

    /** transformers then makes Llama 4's experts anew, one by one, whatever the list of modules to leave out says. */
    private static boolean isLlama4(@Nullable ObjectNode config) {
        return config != null && config.path("model_type").asText("").startsWith("llama4");
    }
}
