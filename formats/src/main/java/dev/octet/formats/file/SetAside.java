package dev.octet.formats.file;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Moves files and folders that a run replaces together to the folder {@code .octet-earlier} next to them: deletes them when all new ones
 * exist, restores them when the run fails. After a killed process, the next process restores them.
 */
public final class SetAside implements AutoCloseable {
    private static final String FOLDER = ".octet-earlier";

    private final Path folder;
    private final Path aside;
    private final List<String> names;
    private boolean replaced;

    private SetAside(Path folder, List<String> names) {
        this.folder = folder;
        this.aside = folder.resolve(FOLDER);
        this.names = List.copyOf(names);
    }

    /**
     * Sets aside the existing files.
     *
     * @param names names in {@code folder} that will be replaced; none to leave all files
     * @throws IOException when a file cannot be moved; nothing is changed then
     */
    public static SetAside of(Path folder, List<String> names) throws IOException {
        SetAside earlier = new SetAside(folder, names);
        if (names.isEmpty()) {
            return earlier;
        }
        earlier.bringBack(); // files of a killed process
        Files.createDirectories(earlier.aside);
        try {
            for (String name : names) {
                if (isThere(folder.resolve(name))) {
                    Files.move(folder.resolve(name), earlier.aside.resolve(name), StandardCopyOption.ATOMIC_MOVE);
                }
            }
        } catch (IOException e) {
            earlier.bringBack();
            throw e;
        }
        return earlier;
    }

    private static boolean isThere(Path path) {
        return Files.exists(path, LinkOption.NOFOLLOW_LINKS);
    }

    /** Records that all new files exist. */
    public void replaced() {
        replaced = true;
    }

    /** Deletes the files set aside if they were {@link #replaced}; otherwise restores them in place of the new ones. */
    @Override
    public void close() throws IOException {
        if (replaced) {
            delete(aside);
        } else {
            bringBack();
        }
    }

    private void bringBack() throws IOException {
        if (!isThere(aside)) {
            return;
        }
        for (String name : names) {
            if (isThere(aside.resolve(name))) {
                delete(folder.resolve(name));
                Files.move(aside.resolve(name), folder.resolve(name), StandardCopyOption.ATOMIC_MOVE);
            }
        }
        Files.delete(aside);
    }

    /** Removes a link, but not its target. */
    private static void delete(Path path) throws IOException {
        if (!isThere(path)) {
            return;
        }
        List<Path> all;
        try (Stream<Path> walk = Files.walk(path)) {
            all = walk.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path each : all) {
            Files.delete(each);
        }
    }
}
