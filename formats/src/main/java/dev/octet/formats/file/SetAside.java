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
 * Files and folders that are replaced together by a run of several steps, in the folder {@code .octet-earlier} among them: they go when all new ones
 * are there, and come back when the run fails. What a killed process had set aside comes back with the next one.
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
     * Sets aside what is there.
     *
     * @param names of what will be replaced, in {@code folder}; none to leave all as it is
     * @throws IOException when it cannot be moved; then all is as it was
     */
    public static SetAside of(Path folder, List<String> names) throws IOException {
        SetAside earlier = new SetAside(folder, names);
        if (names.isEmpty()) {
            return earlier;
        }
        earlier.bringBack(); // of a process that was killed
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

    /** All new ones are there. */
    public void replaced() {
        replaced = true;
    }

    /** Removes what was set aside, or brings it back in place of what is there now unless it was {@link #replaced}. */
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

    /** A link is removed, what it leads to is not. */
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
