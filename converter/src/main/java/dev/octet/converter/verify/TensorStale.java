package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.Shard;
import dev.octet.formats.safetensors.SafetensorsHeader;
import dev.octet.formats.safetensors.ShardIndex;
import java.util.Set;

/** Tensors in files of an index that the index does not list. */
final class TensorStale extends CheckpointRule {
    TensorStale() {
        super(
                "tensor-stale",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every tensor of a listed file is in the index: some loaders take all tensors of a file, others only"
                        + " those listed.",
                "index and files are of different exports: download or export the folder again",
                "vllm-project/vllm#54230, vllm-project/vllm:vllm/model_executor/model_loader/weight_utils.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.checkpoint().index().ifPresent(index -> {
            Set<String> listed = index.shardNames(); // goes through the whole index
            for (Shard shard : subject.checkpoint().shards()) {
                if (listed.contains(shard.name())) {
                    check(index, shard, findings);
                }
            }
        });
    }

    private void check(ShardIndex index, Shard shard, Findings findings) {
        for (SafetensorsHeader.Entry entry : shard.header().entries()) {
            String name = entry.spec().name();
            if (!index.weightMap().containsKey(name)) {
                findings.add(this, "a tensor of a listed file is not in the index", name, "in " + shard.name());
            }
        }
    }
}
