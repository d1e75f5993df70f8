package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.TensorRole;

/** A quantised head. */
final class HeadQuantized extends CheckpointRule {
    HeadQuantized() {
        super(
                "head-quantized",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "lm_head is not quantised: engines build it without scales in most versions.",
                "put back the 16-bit lm_head and leave it out in the configuration",
                "vllm-project/vllm#44081, vllm-project/vllm#45132");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.quantized()
                .filter(l -> l.role() == TensorRole.HEAD)
                .forEach(l -> findings.add(this, "a head is quantised", l.module(), ""));
    }
}
