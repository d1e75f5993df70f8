package dev.octet.converter.verify;

import dev.octet.formats.error.MalformedModelException;
import java.util.Set;

/** Headers, index and configuration that break a rule of their format. */
final class FileMalformed extends CheckpointRule {
    FileMalformed() {
        super(
                "file-malformed",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every file keeps the rules of its format.",
                "download or export the named file again",
                "huggingface/safetensors:safetensors/src/tensor.rs");
    }

    /** Rules of safetensors that have a rule of their own here. */
    private static final Set<String> ELSEWHERE =
            Set.of("DuplicateKey", "MissingShard", "MissingTensor", "StaleTensor", "TensorInTwoShards");

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        for (MalformedModelException problem : subject.problems()) {
            if (problem.rule().filter(ELSEWHERE::contains).isEmpty()) {
                findings.add(this, problem.what(), problem.where(), "");
            }
        }
    }
}
