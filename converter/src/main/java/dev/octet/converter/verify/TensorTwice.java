package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.Shard;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.safetensors.SafetensorsHeader;

/** Tensors that are in two files. */
final class TensorTwice extends CheckpointRule {
    TensorTwice() {
        super(
                "tensor-twice",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "No tensor is in two files: which one wins depends on the loader.",
                "export the folder again with each tensor in one file",
                "vllm-project/vllm#54230, vllm-project/vllm#40765");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        for (Shard shard : subject.checkpoint().shards()) {
            for (SafetensorsHeader.Entry entry : shard.header().entries()) {
                StoredTensor first = subject.checkpoint().tensor(entry.spec().name());
                if (first != null && !first.shard().name().equals(shard.name())) {
                    findings.add(
                            this,
                            "a tensor is in two files",
                            entry.spec().name(),
                            "in " + first.shard().name() + " and " + shard.name());
                }
            }
        }
    }
}
