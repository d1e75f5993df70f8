package dev.octet.formats.file;

import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.FileVisitOption;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The inputs and outputs of a run. A run never replaces its inputs, not even with permission to overwrite: {@link #requireApart} refuses,
 * before anything is touched,
 * <ol>
 *   <li>an output that is an input or contains an input;
 *   <li>an output that would replace a file of an input folder;
 *   <li>an output folder inside an input folder;
 *   <li>an input with the name of an output's unfinished work ({@link PartFile}, {@link AtomicFile}, {@link FolderLock});
 *   <li>two equal outputs, or one output inside another.
 * </ol>
 * Paths are equal if they lead to one file, through links, hard links, {@code ..}, or letters that the file system does not distinguish.
 */
public final class RunPaths {
    /** The depth limit of {@code CarriedFiles}. */
    private static final int MAX_DEPTH = 32;

    private static final RunPaths NONE = new RunPaths(List.of(), List.of());

    private final List<Named> inputs;
    private final List<Output> outputs;

    private RunPaths(List<Named> inputs, List<Output> outputs) {
        this.inputs = inputs;
        this.outputs = outputs;
    }

    /** A path and the user's name of it: an option, an operand, a key of a file. */
    private record Named(String name, Path path) {
        @Override
        public String toString() {
            return "'" + path + "' (" + name + ")";
        }
    }

    private record Output(Named named, Kind kind) {}

    private enum Kind {
        /** A file, replaced as a whole. */
        FILE,
        /** A folder, written with all its files. */
        FOLDER,
        /** A folder with outputs among other files. */
        HOME,
        /** An output in such a folder, possibly continued from an earlier run. */
        ENTRY
    }

    /** No inputs, no outputs. */
    public static RunPaths none() {
        return NONE;
    }

    /**
     * Adds an input.
     *
     * @param name the user's name of it
     * @param path a file, or a folder with all its files
     */
    public RunPaths reading(String name, Path path) {
        return new RunPaths(with(inputs, new Named(name, path)), outputs);
    }

    /**
     * Adds an output that replaces an existing one; a folder given here may lie in another folder.
     *
     * @param name the user's name of it
     */
    public RunPaths writing(String name, Path file) {
        return writing(name, file, Kind.FILE);
    }

    /** Adds an output folder, which must not lie in an input folder. */
    public RunPaths writingFolder(String name, Path folder) {
        return writing(name, folder, Kind.FOLDER);
    }

    /**
     * Adds a folder to which the run adds files.
     *
     * @param entries names of the files and folders written in it; nothing else in it is touched
     */
    public RunPaths adding(String name, Path folder, List<String> entries) {
        RunPaths paths = writing(name, folder, Kind.HOME);
        for (String entry : entries) {
            paths = paths.writing(name, folder.resolve(entry), Kind.ENTRY);
        }
        return paths;
    }

    private RunPaths writing(String name, Path path, Kind kind) {
        return new RunPaths(inputs, with(outputs, new Output(new Named(name, path), kind)));
    }

    private static <T> List<T> with(List<T> list, T one) {
        List<T> longer = new ArrayList<>(list);
        longer.add(one);
        return List.copyOf(longer);
    }

    /** Whether an output exists already and would be replaced. */
    public boolean replaces() {
        return outputs.stream().anyMatch(o -> isThere(o.named().path()));
    }

    /**
     * Refuses conflicts of inputs and outputs, see above.
     *
     * @throws InvalidOptionException naming both paths
     * @throws IOException when an input folder cannot be listed
     */
    public void requireApart() throws IOException {
        for (Output output : outputs) {
            for (Named input : inputs) {
                requireApart(input, output);
            }
        }
        for (int i = 0; i < outputs.size(); i++) {
            for (int j = i + 1; j < outputs.size(); j++) {
                requireTwo(outputs.get(i), outputs.get(j));
            }
        }
    }

    private static void requireApart(Named input, Output output) throws IOException {
        Named to = output.named();
        if (isSame(input.path(), to.path())) {
            throw refused(
                    to,
                    input + " is read and cannot be written as " + to.name() + ", too",
                    "give " + to.name() + " another name; an input is never overwritten, not even with --force");
        }
        if (output.kind() != Kind.HOME && holds(to.path(), input.path())) {
            throw refused(
                    to,
                    to + " holds " + input + ", which is read",
                    "write to a folder next to it; an input is never overwritten, not even with --force");
        }
        if (output.kind() == Kind.FOLDER && holds(input.path(), to.path())) {
            throw refused(
                    to, to + " lies in " + input + ", which is read", "write to a folder next to it, not inside it");
        }
        if (output.kind() == Kind.FILE && isThere(to.path()) && isAmongFilesOf(input.path(), to.path())) {
            throw refused(
                    to,
                    to + " would replace a file of " + input + ", which is read",
                    "choose an unused name, or remove the file first if it is not part of the input");
        }
        if (output.kind() != Kind.HOME && isUnfinished(input.path(), to.path())) {
            throw refused(
                    to,
                    input + " has the name of the unfinished work on " + to,
                    "rename it, or give " + to.name() + " another name");
        }
    }

    private static void requireTwo(Output a, Output b) throws IOException {
        if (a.kind() == Kind.HOME || b.kind() == Kind.HOME) {
            return;
        }
        Path first = a.named().path();
        Path second = b.named().path();
        if (isSame(first, second) || holds(first, second) || holds(second, first)) {
            throw refused(
                    b.named(),
                    a.named() + " and " + b.named() + " are the same output",
                    "give " + b.named().name() + " a name of its own");
        }
    }

    private static InvalidOptionException refused(Named output, String what, String fix) {
        return new InvalidOptionException(what, output.path().toString(), fix);
    }

    private static boolean isThere(Path path) {
        return Files.exists(path, LinkOption.NOFOLLOW_LINKS);
    }

    /** Whether two paths lead to one file, or would if it existed. */
    private static boolean isSame(Path a, Path b) throws IOException {
        return real(a).equals(real(b)) || (Files.exists(a) && Files.exists(b) && Files.isSameFile(a, b));
    }

    private static boolean holds(Path folder, Path path) {
        Path outer = real(folder);
        Path inner = real(path);
        return Files.isDirectory(outer) && inner.startsWith(outer) && !inner.equals(outer);
    }

    /** The real path of the existing part, followed by the rest of the name; resolves {@code link/..} through the link. */
    private static Path real(Path path) {
        return resolved(path.toAbsolutePath()).normalize();
    }

    private static Path resolved(Path path) {
        try {
            return path.toRealPath();
        } catch (IOException e) { // missing or not accessible
            Path parent = path.getParent();
            Path name = path.getFileName();
            return parent == null || name == null ? path : resolved(parent).resolve(name);
        }
    }

    /** Whether a folder has the file, or a link or hard link to it, at any depth. */
    private static boolean isAmongFilesOf(Path folder, Path file) throws IOException {
        if (!Files.isDirectory(folder)) {
            return false;
        }
        Path parent = file.toAbsolutePath().getParent();
        boolean isEntry = parent != null && real(parent).startsWith(real(folder)); // also a link that leads out of it
        if (isEntry || holds(folder, file)) {
            return true;
        }
        if (!Files.exists(file)) {
            return false; // a dangling link
        }
        Object key = Files.readAttributes(file, BasicFileAttributes.class).fileKey();
        AtomicBoolean found = new AtomicBoolean();
        // links are followed: a download cache keeps its files elsewhere and links to them
        Files.walkFileTree(folder, EnumSet.of(FileVisitOption.FOLLOW_LINKS), MAX_DEPTH, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(Path entry, BasicFileAttributes attributes) throws IOException {
                return look(entry, attributes);
            }

            @Override
            public FileVisitResult visitFile(Path entry, BasicFileAttributes attributes) throws IOException {
                return look(entry, attributes);
            }

            @Override
            public FileVisitResult visitFileFailed(Path entry, IOException e) {
                return FileVisitResult.CONTINUE; // reading the file will report the fault
            }

            private FileVisitResult look(Path entry, BasicFileAttributes attributes) throws IOException {
                found.set(isOne(entry, attributes.fileKey()));
                return found.get() ? FileVisitResult.TERMINATE : FileVisitResult.CONTINUE;
            }

            private boolean isOne(Path entry, @Nullable Object entryKey) throws IOException {
                return (key == null || entryKey == null) ? Files.isSameFile(entry, file) : key.equals(entryKey);
            }
        });
        return found.get();
    }

    /** Whether the input has the name of the output's unfinished work, which Octet removes. */
    private static boolean isUnfinished(Path input, Path output) {
        Path from = real(input);
        Path to = real(output);
        if (!Objects.equals(from.getParent(), to.getParent())) {
            return false;
        }
        String name = Pattern.quote(String.valueOf(to.getFileName()));
        return String.valueOf(from.getFileName())
                .matches("\\." + name + "\\.(?:part|lock|\\d+-\\d+\\.tmp)|\\.octet-export-" + name + "(?:\\.lock)?");
    }
}
