package dev.octet.converter.verify;

import dev.octet.formats.safetensors.ShardIndex;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;

/** Files that an index names and that are not there. */
final class ShardMissing extends CheckpointRule {
    ShardMissing() {
        super(
                "shard-missing",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every file that the index names is there.",
                "the download is incomplete: fetch the missing files",
                "vllm-project/vllm#40765, huggingface/huggingface_hub:src/huggingface_hub/serialization/_base.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.checkpoint()
                .index()
                .ifPresent(index -> check(index, subject.checkpoint().folder(), findings));
    }

    private void check(ShardIndex index, Path folder, Findings findings) {
        for (String name : index.shardNames()) {
            if (!exists(folder, name)) {
                findings.add(this, "a file that the index names is not there", name, "");
            }
        }
    }

    private static boolean exists(Path folder, String name) {
        try {
            return Files.exists(folder.resolve(name));
        } catch (InvalidPathException e) {
            return false; // a name that no file can have
        }
    }
}
