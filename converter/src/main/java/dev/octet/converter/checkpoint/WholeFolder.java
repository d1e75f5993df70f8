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
 * Writes a checkpoint's folder all or nothing: the folder is made under another name and renamed when complete; a failure before that
 * leaves the existing output unchanged.
 */
public final class WholeFolder {
    /** Subfolder of an existing output that holds the new model until it is complete. */
    static final String NEW = ".octet-new";

    private static final String EXTENSION = ".safetensors";

    private WholeFolder() {}

    /** Writes the contents of a folder. */
    @FunctionalInterface
    public interface Content {
        /** Writes all files into an empty folder. */
        void writeTo(Path folder) throws IOException;
    }

    /**
     * Makes a folder. In an existing folder the new files replace those of the old model (tensors, index, configuration); other files stay
     * unless the new folder has a file of the same name.
     *
     * @param output its parent must exist
     * @throws InvalidOptionException when the output is a file
     * @throws java.nio.file.FileSystemException when another process writes to the same output
     * @throws IOException when writing fails; nothing that was written is left then
     */
    public static void write(Path output, Content content) throws IOException {
        requireFolder(output);
        try (MastersFolder folder = MastersFolder.beside(output)) {
            content.writeTo(folder.path());
            place(folder.path(), output);
        }
    }

    /** Refuses an output that exists and is not a folder. */
    static void requireFolder(Path output) {
        if (Files.exists(output, LinkOption.NOFOLLOW_LINKS) && !Files.isDirectory(output)) {
            throw new InvalidOptionException(
                    "'" + output + "' is a file, but the output is a folder", "--output", "give the name of a folder");
        }
    }

    /**
     * Refuses to overwrite an existing output without permission.
     *
     * @param force whether the user permits it
     */
    public static void requireFree(Path output, boolean force) {
        if (Files.exists(output, LinkOption.NOFOLLOW_LINKS) && !force) {
            throw new InvalidOptionException(
                    "'" + output + "' exists", "--output", "choose another name, or overwrite it with --force");
        }
    }

    /**
     * Moves the result to its final name, in one step if nothing exists there. A file replaces a file. In an existing folder, first all new
     * files are brought to its disk; then the old model is deleted and the new files are renamed into place one by one, the configuration
     * last. Hidden files stay where they are.
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
        for (Path file : files) { // finds obstacles before anything is removed
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

    /** All files but hidden ones; the configuration last. */
    private static List<Path> filesOf(Path folder) throws IOException {
        try (Stream<Path> all = Files.walk(folder)) {
            return all.filter(f -> Files.isRegularFile(f)
                            && !String.valueOf(f.getFileName()).startsWith("."))
                    .sorted(Comparator.comparing(f -> f.endsWith(ModelConfig.FILE_NAME)))
                    .toList();
        }
    }

    /** Copies the new folder if it lies on another disk, because the output is a link or a mount point. */
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

    /** Removes the model in a folder: tensors (unfinished ones too), index, configuration, kept scales. */
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

    /** Whether a file of this name in the folder of a model goes when another model takes its place. */
    public static boolean isOfModel(String name) {
        return name.endsWith(EXTENSION)
                || name.endsWith(EXTENSION + ".part")
                || name.endsWith(EXTENSION + ".index.json")
                || name.equals(ModelConfig.FILE_NAME)
                || name.equals("hf_quant_config.json");
    }

    /** Removes a folder and its contents; removes links, but not their targets. */
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
