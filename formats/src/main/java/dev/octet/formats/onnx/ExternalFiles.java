package dev.octet.formats.onnx;

import dev.octet.formats.file.MappedFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The data files of a model, each mapped once. A location is a relative POSIX path that stays inside the model's folder, also after links
 * are resolved (ONNX: docs/ExternalData.md).
 */
final class ExternalFiles {
    private static final String FIX_LOCATION =
            "put the data file next to the model (cp -L where it is a link) and export again with a plain file name as"
                    + " location";

    private final @Nullable Path folder;
    private final Arena arena;
    private final Map<Path, MemorySegment> mapped = new HashMap<>();

    /** {@code folder}: the model's folder; null for a model from memory, which has no external data. */
    ExternalFiles(@Nullable Path folder, Arena arena) {
        this.folder = folder;
        this.arena = arena;
    }

    /** All bytes of the file at {@code location}. */
    MemorySegment map(String location, Place place) throws IOException {
        Path real = resolve(location, place);
        MemorySegment known = mapped.get(real);
        if (known != null) {
            return known;
        }
        MemorySegment all = MappedFile.map(real, arena);
        mapped.put(real, all);
        return all;
    }

    /** The real paths of the mapped files. */
    List<Path> paths() {
        return List.copyOf(mapped.keySet());
    }

    private Path resolve(String location, Place place) throws IOException {
        if (folder == null) {
            throw place.malformed(
                    "external data '" + location + "', but the model came without a folder",
                    "read the model from a file");
        }
        if (location.isEmpty()) {
            throw place.malformed("external data without a location", "export the model again");
        }
        Path relative = relative(location, place);
        Path root = folder.toRealPath();
        Path real;
        try {
            real = root.resolve(relative).toRealPath();
        } catch (NoSuchFileException e) {
            throw place.malformed(
                    "external data file '" + location + "' is missing",
                    "copy it into " + folder + ": a model with external data is more than one file",
                    e);
        }
        if (!real.startsWith(root)) {
            throw place.malformed("external data '" + location + "' leads out of the model's folder", FIX_LOCATION);
        }
        if (!Files.isRegularFile(real)) {
            throw place.malformed("external data '" + location + "' is not a regular file", FIX_LOCATION);
        }
        return real;
    }

    private static Path relative(String location, Place place) {
        boolean driveLetter = location.length() > 1 && location.charAt(1) == ':';
        if (location.startsWith("/") || location.startsWith("\\") || driveLetter) {
            throw place.malformed("external data location '" + location + "' is absolute", FIX_LOCATION);
        }
        for (String part : location.split("[/\\\\]", -1)) {
            if (part.equals("..")) {
                throw place.malformed("external data location '" + location + "' contains '..'", FIX_LOCATION);
            }
        }
        try {
            return Path.of(location);
        } catch (InvalidPathException e) {
            throw place.malformed("external data location is not a path: " + e.getReason(), FIX_LOCATION, e);
        }
    }
}
