package dev.octet.formats.model;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;

/** One file format. Stateless. */
public interface ModelFormat {
    /** Short lower-case name: {@code onnx}, {@code safetensors}. */
    String name();

    /**
     * Whether {@code path} looks like this format, judged by a few bytes of content, not by its name.
     *
     * @throws IOException when the file cannot be read
     */
    boolean recognises(Path path) throws IOException;

    /**
     * Reads the model; tensors are views into mapped memory that {@code arena} owns.
     *
     * @throws dev.octet.formats.error.MalformedModelException when the file breaks a rule of the format
     * @throws IOException when the file cannot be read
     */
    Model read(Path path, Arena arena) throws IOException;

    /**
     * The other files of the model at {@code path}: shards, external data. None for a folder.
     *
     * @throws dev.octet.formats.error.MalformedModelException when the file breaks a rule of the format
     * @throws IOException when the file cannot be read
     */
    List<Path> otherFiles(Path path) throws IOException;

    /**
     * Writes the model atomically: {@code path} holds either the whole new file or the old one.
     *
     * @throws IOException when there is no space or no permission; nothing half-written is left
     */
    void write(Model model, Path path) throws IOException;
}
