package dev.octet.converter.verify;

/** State of a training run that inference does not read. */
final class TrainingLeftovers extends CheckpointRule {
    TrainingLeftovers() {
        super(
                "training-state",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "A checkpoint for inference has no _extra_state: it holds pickles that newer readers refuse.",
                "remove the _extra_state tensors; octet convert does",
                "NVIDIA/TransformerEngine:transformer_engine/pytorch/module/base.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.checkpoint().tensors().keySet().stream()
                .filter(n -> n.endsWith("_extra_state"))
                .forEach(n -> findings.add(this, "a tensor holds a training library's state", n, ""));
    }
}
