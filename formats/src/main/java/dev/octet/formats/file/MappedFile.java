package dev.octet.formats.file;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** Files as memory. */
public final class MappedFile {
    private MappedFile() {}

    /**
     * The whole file, read-only, of any size, mapped until {@code arena} closes. Pages are read when touched. The file may be
     * replaced by a rename meanwhile; one that is shortened in place makes later reads fail with {@link InternalError}.
     *
     * @throws NoSuchFileException when there is no such file
     * @throws FileSystemException when it is not a regular file (a pipe would block, a device never end)
     * @throws IOException when it cannot be opened or mapped
     */
    public static MemorySegment map(Path path, Arena arena) throws IOException {
        requireRegular(path);
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
        }
    }

    /**
     * The first {@code count} bytes of a file, fewer when it is shorter.
     *
     * @throws IOException as {@link #map}
     */
    public static byte[] head(Path path, int count) throws IOException {
        requireRegular(path);
        try (var in = Files.newInputStream(path)) {
            return in.readNBytes(count);
        }
    }

    private static void requireRegular(Path path) throws IOException {
        if (!Files.exists(path)) {
            throw new NoSuchFileException(path.toString());
        }
        if (!Files.isRegularFile(path)) {
            throw new FileSystemException(path.toString(), null, "not a regular file");
        }
    }
}
