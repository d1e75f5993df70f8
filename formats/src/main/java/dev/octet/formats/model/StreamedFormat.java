package dev.octet.formats.model;

import dev.octet.formats.error.MalformedModelException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Consumer;

/** A format without a graph, whose tensors lie in files as they are: read by position, so that memory does not grow with the model. */
public interface StreamedFormat extends ModelFormat {
    /**
     * Reads and checks the headers of a model's files; no tensor is touched.
     *
     * @param path a file, an index of files, or a folder
     * @param problems takes a file that breaks a rule, which is then left out; it may throw what it is given
     * @throws dev.octet.formats.error.UnsupportedModelException when a folder has no model of this format, or several
     * @throws IOException when a file cannot be read
     */
    ShardSet shards(Path path, Consumer<MalformedModelException> problems) throws IOException;

    /**
     * States of FP8 training that lie in a model's files and are no tensors of {@link #shards}.
     *
     * @param path as for {@link #shards}
     * @throws MalformedModelException when one is longer than {@link ExtraState#MAX_BYTES} or lies outside of its file
     * @throws IOException when a file cannot be read
     */
    default List<ExtraState> extraStates(Path path) throws IOException {
        return List.of();
    }
}
