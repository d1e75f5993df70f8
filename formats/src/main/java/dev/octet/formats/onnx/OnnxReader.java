package dev.octet.formats.onnx;

import dev.octet.formats.file.MappedFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.onnx.proto.ModelProto;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Reads ONNX models of up to 2 GiB (more in external data). The file is mapped; tensors stored in memory layout (raw, external, packed
 * float and double lists) become views of the mapping, so heap use does not depend on their size.
 *
 * <p><b>Lossless</b>: reading and writing a model gives a ModelProto with the same content, including unknown fields of any message. The
 * following change form, but not meaning:
 * <ul>
 *   <li>Numbers of tensors move from any field or file to {@code raw_data} or external data; {@code external_data} keys other than
 *       location, offset and length (checksums) are dropped.
 *   <li>An optional field with its default value may become absent or vice versa; an attribute without a type (IR 1) gets the type of
 *       its value.
 *   <li>The default domain is written as the empty string instead of {@code ai.onnx}; an operator set that is imported twice in the
 *       same version is imported once.
 *   <li>In the shape of a value, a negative size or empty symbol becomes an unknown dimension.
 *   <li>In metadata and value infos, entries that repeat a key come after all others.
 * </ul>
 */
public final class OnnxReader {
    private OnnxReader() {}

    /** Reads with {@link OnnxLimits#DEFAULT}. */
    public static GraphModel read(Path path, Arena arena) throws IOException {
        return read(path, arena, OnnxLimits.DEFAULT);
    }

    /**
     * Reads a model.
     *
     * @param arena owns the mapped files; tensors are valid as long as the arena
     * @throws dev.octet.formats.error.MalformedModelException when the file breaks a rule of ONNX or exceeds a limit
     * @throws dev.octet.formats.error.UnsupportedModelException when training_info has external data
     * @throws IOException when the file, or a data file it names, cannot be read
     */
    public static GraphModel read(Path path, Arena arena, OnnxLimits limits) throws IOException {
        Place place = Place.file(path.toString());
        MemorySegment file = MappedFile.map(path, arena);
        long size = file.byteSize();
        if (size == 0) {
            throw place.malformed("the file is empty", "download or export the model again");
        }
        if (size > OnnxLimits.MAX_FILE_BYTES) {
            throw place.malformed(
                    "the file has " + size + " bytes, but protobuf allows at most " + OnnxLimits.MAX_FILE_BYTES,
                    "save the model with external data");
        }
        return parse(file, place, path.toAbsolutePath().getParent(), arena, limits);
    }

    /** The real paths of a model's data files. */
    static List<Path> dataFiles(Path path) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            Place place = Place.file(path.toString());
            MemorySegment file = MappedFile.map(path, arena);
            ExternalFiles files = new ExternalFiles(path.toAbsolutePath().getParent(), arena);
            ModelProto proto = StrippedProto.parse(file, place, OnnxLimits.DEFAULT);
            new GraphDecoder(new TensorDecoder(file, files, arena, OnnxLimits.DEFAULT)).model(proto, place);
            return files.paths();
        }
    }

    /** Reads a model from memory. {@code folder}: the folder of external data; null if there can be none. */
    static GraphModel parse(MemorySegment file, Place place, @Nullable Path folder, Arena arena, OnnxLimits limits)
            throws IOException {
        ModelProto proto = StrippedProto.parse(file, place, limits);
        TensorDecoder tensors = new TensorDecoder(file, new ExternalFiles(folder, arena), arena, limits);
        return new GraphDecoder(tensors).model(proto, place);
    }
}
