package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.StoredWeight;
import org.jspecify.annotations.Nullable;

/** Tensors of the original that are not in the checkpoint. */
final class OriginalTensors extends CheckpointRule {
    OriginalTensors() {
        super(
                "original-tensors",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every tensor of the original is there, with its shape.",
                "export again; a tensor was lost or cut on the way",
                "amd/Quark#42, vllm-project/vllm#54556");
    }

    @Override
    public boolean needsOriginal() {
        return true;
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        Checkpoint original = subject.original();
        if (original == null) {
            return;
        }
        boolean tied = subject.config() != null
                && subject.config().path("tie_word_embeddings").asBoolean(false);
        for (StoredTensor tensor : original.tensors().values()) {
            Shape found = shape(subject, tensor.name());
            if (found == null && !(tied && tensor.name().endsWith("lm_head.weight")) && !subject.lost(tensor.name())) {
                findings.add(
                        this,
                        "a tensor of the original is not there",
                        tensor.name(),
                        tensor.shape().toString());
            } else if (found != null && !found.equals(tensor.shape())) {
                findings.add(
                        this,
                        "a tensor has another shape than in the original",
                        tensor.name(),
                        found + ", in the original " + tensor.shape());
            }
        }
    }

    private static @Nullable Shape shape(CheckpointSubject subject, String name) {
        StoredWeight weight = subject.stored().weights().get(name);
        if (weight != null) {
            return weight.shape();
        }
        StoredTensor plain = subject.checkpoint().tensor(name);
        return plain == null ? null : plain.shape();
    }
}
