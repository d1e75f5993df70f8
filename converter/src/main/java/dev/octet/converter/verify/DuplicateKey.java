package dev.octet.converter.verify;

import dev.octet.formats.error.MalformedModelException;

/** Names that occur twice in one header or index. */
final class DuplicateKey extends CheckpointRule {
    DuplicateKey() {
        super(
                "duplicate-key",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "No name occurs twice in a header or index: readers silently keep the last.",
                "export the file again; two readers see two different tensors",
                "huggingface/safetensors:safetensors/src/tensor.rs");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        for (MalformedModelException problem : subject.problems()) {
            if (problem.rule().filter("DuplicateKey"::equals).isPresent()) {
                findings.add(this, problem.what(), problem.where(), "");
            }
        }
    }
}
