package dev.octet.formats.torch;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.Model;
import dev.octet.formats.model.StreamedFormat;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;

/** A format of folders that programs of torch save, and Octet reads as one model: it lies in the folder as a whole, and models in memory are not written so. */
public interface FolderFormat extends StreamedFormat {
    @Override
    default Model read(Path path, Arena arena) throws IOException {
        return TorchFormat.model(
                shards(path, problem -> {
                    throw problem;
                }),
                arena);
    }

    @Override
    default List<Path> otherFiles(Path path) {
        return List.of();
    }

    /** @throws UnsupportedModelException always: a model in memory is written as safetensors */
    @Override
    default void write(Model model, Path path) {
        throw TorchFormat.notWritten(name(), path);
    }
}
