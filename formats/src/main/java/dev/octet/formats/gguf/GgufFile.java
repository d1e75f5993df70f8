package dev.octet.formats.gguf;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.MappedFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A GGUF file, mapped: opening reads the header only.
 *
 * @param path as it was opened
 * @param header its keys and tensors
 * @param bytes all of the file
 */
public record GgufFile(Path path, GgufHeader header, MemorySegment bytes) {
    /** Whether {@code path} is a file that begins as one. */
    public static boolean isGguf(Path path) throws IOException {
        return Files.isRegularFile(path) && GgufHeader.isHead(MappedFile.head(path, GgufHeader.MAGIC.length));
    }

    /**
     * Refuses a GGUF file where only other formats are read.
     *
     * @throws UnsupportedModelException when {@code path} is one
     */
    public static void requireOther(Path path) throws IOException {
        if (isGguf(path)) {
            throw new UnsupportedModelException(
                    "the file is GGUF, which only `octet inspect` and `octet convert --target huggingface` read",
                    path.toString(),
                    "make a folder of it: octet convert FILE -o DIR --target huggingface");
        }
    }

    /**
     * Opens a file until {@code arena} closes.
     *
     * @throws dev.octet.formats.error.MalformedModelException when it breaks a rule of the format
     * @throws UnsupportedModelException for another version, byte order or type of tensors
     * @throws IOException when it is missing or cannot be read
     */
    public static GgufFile open(Path path, Arena arena) throws IOException {
        MemorySegment bytes = MappedFile.map(path, arena);
        return new GgufFile(path, GgufHeader.parse(bytes, path.toString(), GgufLimits.DEFAULT), bytes);
    }

    /** The blocks of a tensor: a view. */
    public MemorySegment bytes(GgufHeader.Entry entry) {
        return bytes.asSlice(entry.position(), entry.tensor().byteSize());
    }
}
