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
 * What a run reads and what it writes. Nothing that is read may be replaced, whatever a user allows to be overwritten: {@link #requireApart}
 * refuses, before anything is touched,
 * <ol>
 *   <li>an output that is an input, and one that holds an input;
 *   <li>an output that would replace a file of a folder that is read;
 *   <li>a folder to be written that lies in a folder that is read;
 *   <li>an input that has the name of an output's unfinished work ({@link PartFile}, {@link AtomicFile}, {@link FolderLock});
 *   <li>two outputs that are the same, or one in the other.
 * </ol>
 * The same are two names of one file, through links, hard links, {@code ..}, or letters that the file system takes for the same.
 */
public final class RunPaths {
    /** As deep as {@code CarriedFiles} looks. */
    private static final int MAX_DEPTH = 32;

    private static final RunPaths NONE = new RunPaths(List.of(), List.of());

    private final List<Named> inputs;
    private final List<Output> outputs;

    private RunPaths(List<Named> inputs, List<Output> outputs) {
        this.inputs = inputs;
        this.outputs = outputs;
    }

    /** A path and what the user knows it by: an option, an operand, a key of a file. */
    private record Named(String name, Path path) {
        @Override
        public String toString() {
            return "'" + path + "' (" + name + ")";
        }
    }

    private record Output(Named named, Kind kind) {}

    private enum Kind {
        /** A file that appears whole. */
        FILE,
        /** A folder that is written, with all there is to it. */
        FOLDER,
        /** A folder that has outputs among other files. */
        HOME,
        /** What is written in such a folder; may have grown there before. */
        ENTRY
    }

    /** Nothing is read, nothing written. */
    public static RunPaths none() {
        return NONE;
    }

    /**
     * The same with one more input.
     *
     * @param name what the user knows it by
     * @param path a file, or a folder, of which all files count
     */
    public RunPaths reading(String name, Path path) {
        return new RunPaths(with(inputs, new Named(name, path)), outputs);
    }

    /**
     * The same with one more output that replaces what is there; no harm when it turns out to be a folder that may lie in another.
     *
     * @param name what the user knows it by
     */
    public RunPaths writing(String name, Path file) {
        return writing(name, file, Kind.FILE);
    }

    /** The same with one more output, a folder that must not lie in one that is read. */
    public RunPaths writingFolder(String name, Path folder) {
        return writing(name, folder, Kind.FOLDER);
    }

    /**
     * The same with one more folder that files are added to.
     *
     * @param entries what is written in it, as names; nothing else in it is touched
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

    /** Whether any output is there already, so that something could be replaced. */
    public boolean replaces() {
        return outputs.stream().anyMatch(o -> isThere(o.named().path()));
    }

    /**
     * Refuses what the class says.
     *
     * @throws InvalidOptionException naming both paths
     * @throws IOException when a folder that is read cannot be looked through
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
                    "give " + to.name() + " another name: what is read is never overwritten, also not with --force");
        }
        if (output.kind() != Kind.HOME && holds(to.path(), input.path())) {
            throw refused(
                    to,
                    to + " holds " + input + ", which is read",
                    "write to another name: what is read is never overwritten, even with --force");
        }
        if (output.kind() == Kind.FOLDER && holds(input.path(), to.path())) {
            throw refused(
                    to, to + " lies in " + input + ", which is read", "write to a folder next to it, not inside it");
        }
        if (output.kind() == Kind.FILE && isThere(to.path()) && isAmongFilesOf(input.path(), to.path())) {
            throw refused(
                    to,
                    to + " would replace a file of " + input + ", which is read",
                    "choose a name that is free, or remove the file first if it is not part of what is read");
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

    /** Whether two paths lead to one file, or would if it was there. */
    private static boolean isSame(Path a, Path b) throws IOException {
        return real(a).equals(real(b)) || (Files.exists(a) && Files.exists(b) && Files.isSameFile(a, b));
    }

    private static boolean holds(Path folder, Path path) {
        Path outer = real(folder);
        Path inner = real(path);
        return Files.isDirectory(outer) && inner.startsWith(outer) && !inner.equals(outer);
    }

    /** The real path of what is there, with the rest of the name after it; {@code link/..} is where the link leads. */
    private static Path real(Path path) {
        return resolved(path.toAbsolutePath()).normalize();
    }

    private static Path resolved(Path path) {
        try {
            return path.toRealPath();
        } catch (IOException e) { // not there, or not for us to see
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
        boolean isEntry = parent != null && real(parent).startsWith(real(folder)); // a link that leads out of it is one
        if (isEntry || holds(folder, file)) {
            return true;
        }
        if (!Files.exists(file)) {
            return false; // a link that leads nowhere
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
                return FileVisitResult.CONTINUE; // whoever reads it says what is wrong with it
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

    /** Whether the input has a name that Octet gives to what it has not finished, and removes. */
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
