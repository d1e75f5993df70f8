package dev.octet.formats.checkpoint;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/** A folder of test data that a test changes. */
public final class CopiedFolder {
    private CopiedFolder() {}

    /** Copies all files of a folder but some, by name. */
    public static Path of(Path source, Path target, String... without) throws IOException {
        List<Path> all;
        try (Stream<Path> files = Files.walk(source)) {
            all = files.filter(Files::isRegularFile).toList();
        }
        for (Path file : all) {
            if (!Set.of(without).contains(file.getFileName().toString())) {
                Path copy = target.resolve(source.relativize(file).toString());
                Files.createDirectories(copy.getParent());
                Files.copy(file, copy);
            }
        }
        return target;
    }
}
