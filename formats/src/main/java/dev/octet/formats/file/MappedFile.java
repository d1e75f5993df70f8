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
import java.nio.file.attribute.BasicFileAttributes;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Maps files. If another program shortens a mapped file in place, Java fails with an {@link InternalError} that does not name the file, and
 * the rest of the last page reads as zeros. Therefore mappings are recorded, and {@link #shortened} finds the file.
 */
public final class MappedFile {
    private static final System.Logger LOG = System.getLogger(MappedFile.class.getName());

    /** Most recorded mappings; the oldest are dropped first. */
    private static final int REMEMBERED = 1 << 16;

    private static final Map<Path, Mapping> MAPPINGS = new LinkedHashMap<>();
    private static long count;

    /** The state of a file at its mapping. */
    private record Mapping(
            long number, long bytes, @Nullable Object key) {}

    private MappedFile() {}

    /**
     * Maps a whole file of any size, read-only, until {@code arena} closes. Pages are read when touched. Replacing the file by a rename is
     * safe; shortening it in place makes later reads fail with {@link InternalError}, see {@link #shortened}. Native code must not read the
     * mapping, because a shortened file would end the process with SIGBUS.
     *
     * @throws NoSuchFileException when there is no such file
     * @throws FileSystemException when the file is not a regular file (a pipe would block, a device might be endless)
     * @throws IOException when the file cannot be opened or mapped
     */
    public static MemorySegment map(Path path, Arena arena) throws IOException {
        requireRegular(path);
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            MemorySegment bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
            remember(path.toAbsolutePath(), bytes.byteSize());
            return bytes;
        }
    }

    private static void remember(Path path, long bytes) throws IOException {
        Object key = Files.readAttributes(path, BasicFileAttributes.class).fileKey();
        synchronized (MAPPINGS) {
            MAPPINGS.remove(path);
            MAPPINGS.put(path, new Mapping(count++, bytes, key));
            if (MAPPINGS.size() > REMEMBERED) {
                MAPPINGS.remove(MAPPINGS.keySet().iterator().next());
            }
        }
    }

    /** Number of mappings so far, which identifies later mappings. */
    public static long count() {
        synchronized (MAPPINGS) {
            return count;
        }
    }

    /**
     * Finds a file that became shorter since it was mapped. A replaced or removed file does not count, because its mapping stays intact.
     *
     * @param since {@link #count} before the relevant mappings; 0 for all
     */
    public static Optional<ShortenedFileException> shortened(long since) {
        Map<Path, Mapping> mappings = new LinkedHashMap<>();
        synchronized (MAPPINGS) {
            MAPPINGS.forEach((path, m) -> {
                if (m.number() >= since) {
                    mappings.put(path, m);
                }
            });
        }
        for (Map.Entry<Path, Mapping> each : mappings.entrySet()) {
            Mapping m = each.getValue();
            try {
                BasicFileAttributes now = Files.readAttributes(each.getKey(), BasicFileAttributes.class);
                if (Objects.equals(now.fileKey(), m.key()) && now.size() < m.bytes()) {
                    return Optional.of(new ShortenedFileException(each.getKey().toString(), m.bytes(), now.size()));
                }
            } catch (IOException e) {
                LOG.log(System.Logger.Level.DEBUG, "it is gone, what is mapped stays", e);
            }
        }
        return Optional.empty();
    }

    /**
     * The first {@code count} bytes of a file, or all bytes of a shorter file.
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
