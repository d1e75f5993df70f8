package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.Shard;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/** Other safetensors files beside those of the checkpoint. */
final class FileUnlisted extends CheckpointRule {
    FileUnlisted() {
        super(
                "file-unlisted",
                Severity.WARNING,
                Consumer.OF_CHECKPOINTS,
                "The folder holds no safetensors files but those of the checkpoint: loaders that take all files take"
                        + " them too.",
                "move the other files out of the folder",
                "vllm-project/vllm#54230, vllm-project/vllm:vllm/model_executor/model_loader/weight_utils.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) throws IOException {
        Checkpoint checkpoint = subject.checkpoint();
        if (checkpoint.index().isEmpty() && Files.isRegularFile(checkpoint.path())) {
            return; // one file was asked for, whatever lies beside it
        }
        Set<String> listed = new HashSet<>();
        checkpoint.index().ifPresent(i -> listed.addAll(i.shardNames()));
        checkpoint.shards().stream().map(Shard::name).forEach(listed::add);
        if (checkpoint.index().isPresent()) {
            listed.retainAll(checkpoint.index().get().shardNames());
        }
        for (String name : files(checkpoint.folder())) {
            if (!listed.contains(name)) {
                boolean indexed = checkpoint.index().isPresent();
                findings.add(
                        this,
                        indexed ? Severity.WARNING : Severity.ERROR,
                        indexed ? consumers() : Consumer.VLLM_LIKE,
                        indexed ? "a file is not in the index" : "a second model file and no index: both are loaded",
                        name,
                        "");
            }
        }
    }

    private static List<String> files(Path folder) throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.map(f -> String.valueOf(f.getFileName()))
                    .filter(n -> n.endsWith(".safetensors"))
                    .sorted()
                    .toList();
        }
    }
}
