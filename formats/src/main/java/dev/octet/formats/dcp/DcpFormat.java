package dev.octet.formats.dcp;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.model.ExtraState;
import dev.octet.formats.model.ShardSet;
import dev.octet.formats.torch.FolderFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Consumer;

/** Distributed checkpoints of torch in a folder. Tensors are read from their chunks by position; optimizers and other states are left out. */
public final class DcpFormat implements FolderFormat {
    /** The format; stateless. */
    public DcpFormat() {}

    @Override
    public String name() {
        return "dcp";
    }

    /** Recognises a folder with {@code .metadata}, or with files of safetensors that hold shards. */
    @Override
    public boolean recognises(Path path) throws IOException {
        return Files.isDirectory(path) && (DcpFolder.isOne(path) || DcpSafetensors.isOne(path));
    }

    @Override
    public ShardSet shards(Path path, Consumer<MalformedModelException> problems) throws IOException {
        Path folder = path.toAbsolutePath();
        return DcpFolder.isOne(folder)
                ? DcpFolder.open(folder).shards(problems)
                : DcpSafetensors.shards(folder, problems);
    }

    @Override
    public List<ExtraState> extraStates(Path path) throws IOException {
        return DcpFolder.isOne(path) ? DcpFolder.open(path).extraStates() : List.of();
    }
}
