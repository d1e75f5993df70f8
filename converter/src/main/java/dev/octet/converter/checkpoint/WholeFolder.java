package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * A checkpoint's folder that appears whole. It is made under another name and takes its own when it is complete; whatever fails before that
 * leaves what was there.
 */
public final class WholeFolder {
    /** Within a folder that is there: the new model, until it is complete. */
    static final String NEW = ".octet-new";

    private static final String EXTENSION = ".safetensors";

    private WholeFolder() {}

    /** Fills a folder. */
    @FunctionalInterface
    public interface Content {
        /** Writes all files into an empty folder. */
        void writeTo(Path folder) throws IOException;
    }

    /**
     * Makes a folder. In one that is there, the files of its model (tensors, index, configuration) give way, all else stays unless the new
     * folder has a file of that name.
     *
     * @param output its parent must be there
     * @throws InvalidOptionException when it is a file
     * @throws java.nio.file.FileSystemException when another process writes to the same output
     * @throws IOException when writing fails; then nothing is left of what was written
     */
    public static void write(Path output, Content content) throws IOException {
        requireFolder(output);
        try (MastersFolder folder = MastersFolder.beside(output)) {
            content.writeTo(folder.path());
            place(folder.path(), output);
        }
    }

    /** Refuses an output that is there and no folder. */
    static void requireFolder(Path output) {
        if (Files.exists(output, LinkOption.NOFOLLOW_LINKS) && !Files.isDirectory(output)) {
            throw new InvalidOptionException(
                    "'" + output + "' is a file, and a folder is written", "--output", "give the name of a folder");
        }
    }

    /**
     * Refuses to overwrite what nobody allowed to be overwritten.
     *
     * @param force whether somebody did
     */
    public static void requireFree(Path output, boolean force) {
        if (Files.exists(output, LinkOption.NOFOLLOW_LINKS) && !force) {
            throw new InvalidOptionException(
                    "'" + output + "' exists", "--output", "choose another name, or overwrite it with --force");
        }
    }

    /**
     * Gives what was made its final name, in one step where nothing is there. A file replaces a file. Into a folder that is there the files
     * go one by one, by renaming, once all of them are on its disk: the old model's go first, the new configuration comes last. Hidden files
     * stay where they are.
     *
     * @param made a folder or a file
     */
    public static void place(Path made, Path output) throws IOException {
        if (Files.isRegularFile(made)) {
            moved(made, output);
            return;
        }
        if (!Files.exists(output)) {
            Files.move(made, output, StandardCopyOption.ATOMIC_MOVE);
            return;
        }
        Path inside = output.resolve(NEW);
        if (!made.equals(inside)) {
            delete(inside);
            brought(made, inside);
        }
        List<Path> files = filesOf(inside);
        for (Path file : files) { // whatever is in the way is in the way before anything is removed
            Path to = output.resolve(inside.relativize(file).toString());
            Files.createDirectories(Objects.requireNonNull(to.getParent()));
            if (Files.isDirectory(to, LinkOption.NOFOLLOW_LINKS)) {
                throw new DirectoryNotEmptyException(to.toString());
            }
        }
        removeModel(output);
        for (Path file : files) {
            Path to = output.resolve(inside.relativize(file).toString());
            Files.move(file, to, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        }
        delete(inside);
    }

    /** All but hidden ones; the configuration last. */
    private static List<Path> filesOf(Path folder) throws IOException {
        try (Stream<Path> all = Files.walk(folder)) {
            return all.filter(f -> Files.isRegularFile(f)
                            && !String.valueOf(f.getFileName()).startsWith("."))
                    .sorted(Comparator.comparing(f -> f.endsWith(ModelConfig.FILE_NAME)))
                    .toList();
        }
    }

    /** The new folder may lie on another disk: the output is a link, or a disk of its own. */
    private static void brought(Path made, Path inside) throws IOException {
        try {
            Files.move(made, inside, StandardCopyOption.ATOMIC_MOVE);
        } catch (AtomicMoveNotSupportedException e) {
            try (Stream<Path> all = Files.walk(made)) {
                for (Path each : all.toList()) {
                    Files.copy(each, inside.resolve(made.relativize(each).toString()));
                }
            }
        }
    }

    private static void moved(Path file, Path output) throws IOException {
        try {
            Files.move(file, output, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (AtomicMoveNotSupportedException e) {
            Files.move(file, output, StandardCopyOption.REPLACE_EXISTING);
        }
    }

    /** Removes the model in a folder: tensors, also unfinished ones, index, configuration, kept scales. */
    static void removeModel(Path folder) throws IOException {
        List<Path> earlier;
        try (Stream<Path> files = Files.list(folder)) {
            earlier = files.filter(f -> isOfModel(String.valueOf(f.getFileName())) && !Files.isDirectory(f))
                    .toList();
        }
        for (Path file : earlier) {
            Files.delete(file);
        }
        KeptScales.delete(folder);
    }

    private static boolean isOfModel(String name) {
        return name.endsWith(EXTENSION)
                || name.endsWith(EXTENSION + ".part")
                || name.endsWith(EXTENSION + ".index.json")
                || name.equals(ModelConfig.FILE_NAME)
                || name.equals("hf_quant_config.json");
    }

    /** Removes a folder with all that is in it. A link is removed, what it leads to is not. */
    static void delete(Path folder) throws IOException {
        if (Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)) {
            List<Path> all;
            try (Stream<Path> entries = Files.walk(folder)) {
                all = entries.sorted(Comparator.reverseOrder()).toList();
            }
            for (Path entry : all) {
                Files.delete(entry);
            }
        }
        Files.deleteIfExists(folder);
    }
}
