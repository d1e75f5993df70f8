package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.Role;
import java.util.EnumSet;

/** Experts in one tensor of codes, whose scales transformers does not fold in. */
final class ExpertsFused extends CheckpointRule {
    ExpertsFused() {
        super(
                "experts-fused",
                Severity.WARNING,
                EnumSet.of(Consumer.TRANSFORMERS),
                "Experts of an fp8 checkpoint have a module each: without a GPU for FP8, transformers dequantises while"
                        + " it loads, but not tensors of all experts, whose codes it takes for values.",
                "store each expert on its own (experts.0.gate_proj.weight), as transformers saves them",
                "huggingface/transformers:src/transformers/quantizers/quantizer_finegrained_fp8.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        if (subject.settings().method() != QuantSettings.Method.FP8) {
            return;
        }
        subject.quantized()
                .filter(l -> l.isParameter() && l.role() == Role.FUSED_EXPERTS)
                .forEach(l -> findings.add(
                        this,
                        "experts are in one tensor",
                        l.weightName(),
                        l.shape().toString()));
    }
}
