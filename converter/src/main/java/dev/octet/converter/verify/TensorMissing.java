package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.Shard;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.safetensors.ShardIndex;
import java.util.Set;
import java.util.stream.Collectors;

/** Tensors that an index promises and their file lacks. */
final class TensorMissing extends CheckpointRule {
    TensorMissing() {
        super(
                "tensor-missing",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every tensor of the index is in the file that the index says.",
                "index and files are of different exports: download or export the folder again",
                "vllm-project/vllm#40765, huggingface/huggingface_hub:src/huggingface_hub/serialization/_base.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.checkpoint().index().ifPresent(index -> check(index, subject, findings));
    }

    private void check(ShardIndex index, CheckpointSubject subject, Findings findings) {
        // files that could not be read are told elsewhere, not once more for each of their tensors
        Set<String> readable =
                subject.checkpoint().shards().stream().map(Shard::name).collect(Collectors.toSet());
        index.weightMap().forEach((tensor, file) -> {
            StoredTensor found = subject.checkpoint().tensor(tensor);
            if (readable.contains(file)
                    && (found == null || !found.shard().name().equals(file))) {
                findings.add(
                        this,
                        "a tensor is not in the file that the index says",
                        tensor,
                        found == null ? "not in " + file : "in " + found.shard().name() + ", not in " + file);
            }
        });
    }
}
