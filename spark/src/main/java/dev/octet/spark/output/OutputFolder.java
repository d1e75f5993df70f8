package dev.octet.spark.output;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.checkpoint.KeptScales;
import dev.octet.converter.checkpoint.WholeFolder;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.spark.hadoop.HadoopPaths;
import java.io.IOException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.AccessControlException;

/**
 * A folder that a run on several machines fills. Until all files are finished they lie in {@link #STATE}, a hidden folder inside it, so that
 * no reader takes the unfinished for a model, and an old model stays until the new one is complete:
 *
 * <ul>
 *   <li>{@code attempts/RUN/}: what tasks write; of two tasks with the same file, one is taken and the other forgotten;
 *   <li>{@code files/}: finished files, renamed by the driver, which alone holds {@code lock.json};
 *   <li>{@code done/}: one record for each of them, with size and time;
 *   <li>{@code run.json}: the identity of the run. The same request goes on, another is refused;
 *   <li>{@code publishing}: present while files get their final names, which a restart finishes.
 * </ul>
 */
public final class OutputFolder implements AutoCloseable {
    /** Hidden, as what is in it is not for readers. */
    public static final String STATE = ".octet-spark";

    private final FileSystem files;
    private final Path folder;
    private final Path state;
    private final String run;
    private final StateFiles small;
    private final OutputLock lock;
    private final Set<String> finished = new HashSet<>();
    private final boolean replaces;

    private OutputFolder(FileSystem files, Path folder, OutputLock lock, String run, boolean replaces) {
        this.files = files;
        this.folder = folder;
        this.state = new Path(folder, STATE);
        this.small = new StateFiles(files);
        this.lock = lock;
        this.run = run;
        this.replaces = replaces;
    }

    /**
     * Opens a folder for a run: begins, or goes on where an earlier run with the same identity stopped.
     *
     * @param folder with its scheme
     * @param identity by what the run is known
     * @param owner how other runs' messages call it
     * @param run a name that no other run has
     * @param force replace a model that is there, and forget the unfinished work of another run
     * @throws InvalidOptionException when the folder is not empty, another run writes to it, or it holds the unfinished work of another
     * @throws AccessDeniedException when it may not be written
     * @throws IOException when the file system fails
     */
    public static OutputFolder open(
            Path folder,
            Configuration configuration,
            Map<String, String> identity,
            String owner,
            String run,
            boolean force)
            throws IOException {
        try {
            FileSystem files = HadoopPaths.fileSystem(folder, configuration);
            requireUsable(files, folder, force);
            boolean made = !files.exists(folder);
            Path state = new Path(folder, STATE);
            if (!files.mkdirs(state)) {
                throw new IOException("'" + state + "' could not be made");
            }
            OutputLock lock = OutputLock.take(files, state, owner);
            OutputFolder opened = new OutputFolder(files, folder, lock, run, !made && force);
            try {
                opened.begin(identity, force);
            } catch (IOException | RuntimeException e) {
                lock.close();
                throw e;
            }
            return opened;
        } catch (AccessControlException e) {
            throw denied(folder, e);
        }
    }

    private static AccessDeniedException denied(Path folder, IOException cause) {
        AccessDeniedException denied = new AccessDeniedException(folder.toString(), null, cause.getMessage());
        denied.initCause(cause);
        return denied;
    }

    private static void requireUsable(FileSystem files, Path folder, boolean force) throws IOException {
        if (!files.exists(folder)) {
            return;
        }
        if (!files.getFileStatus(folder).isDirectory()) {
            throw new InvalidOptionException(
                    "'" + folder + "' is a file, but the output is a folder", "--output", "give the name of a folder");
        }
        boolean others = false;
        for (FileStatus status : files.listStatus(folder)) {
            others |= !status.getPath().getName().equals(STATE);
        }
        boolean publishing = files.exists(new Path(new Path(folder, STATE), "publishing"));
        if (others && !force && !publishing) {
            throw new InvalidOptionException(
                    "'" + folder + "' is not empty",
                    "--output",
                    "choose another folder, or overwrite the model in it with --force");
        }
    }

    private void begin(Map<String, String> identity, boolean force) throws IOException {
        Path file = new Path(state, "run.json");
        if (files.exists(file)) {
            ObjectNode before = small.read(file);
            String difference = identity.entrySet().stream()
                    .filter(e -> !before.path(e.getKey()).asText("").equals(e.getValue()))
                    .map(Map.Entry::getKey)
                    .findFirst()
                    .orElse("");
            if (difference.isEmpty()) {
                findFinished();
            } else if (force) {
                forget();
            } else {
                throw new InvalidOptionException(
                        "the output folder holds the unfinished work of another run: " + difference + " differs",
                        folder.toString(),
                        "repeat that command to finish it, start over with --force, or choose another folder");
            }
        }
        ObjectNode content = StateFiles.object();
        identity.forEach(content::put);
        small.put(file, content);
        files.delete(new Path(state, "attempts"), true); // of tasks whose driver is gone
        files.mkdirs(attempts());
        files.mkdirs(filesOfRun());
        files.mkdirs(new Path(state, "done"));
    }

    private void forget() throws IOException {
        for (FileStatus status : files.listStatus(state)) {
            if (!status.getPath().getName().equals(OutputLock.FILE_NAME)) {
                files.delete(status.getPath(), true);
            }
        }
    }

    /** Trusts a record whose file has the size and time that it had. */
    private void findFinished() throws IOException {
        Path done = new Path(state, "done");
        if (!files.exists(done)) {
            return;
        }
        for (FileStatus status : files.listStatus(done)) {
            if (status.getPath().getName().endsWith(".json")) {
                ObjectNode entry = small.read(status.getPath());
                String name = entry.path("file").asText("");
                if (!name.isEmpty()
                        && (isAsRecorded(new Path(filesOfRun(), name), entry)
                                || isAsRecorded(new Path(folder, name), entry))) {
                    finished.add(name);
                }
            }
        }
    }

    private boolean isAsRecorded(Path file, ObjectNode entry) throws IOException {
        if (!files.exists(file)) {
            return false;
        }
        FileStatus status = files.getFileStatus(file);
        return status.getLen() == entry.path("bytes").asLong(-1)
                && status.getModificationTime() == entry.path("modified").asLong(-1);
    }

    private Path filesOfRun() {
        return new Path(state, "files");
    }

    /** Files that an earlier run finished. */
    public Set<String> finished() {
        return Set.copyOf(finished);
    }

    /** Where tasks put what they write, under names of their own. */
    public Path attempts() {
        return new Path(new Path(state, "attempts"), run);
    }

    /**
     * Takes what a task wrote.
     *
     * @param name of the file in the model
     * @param bytes how many it must have
     * @throws IOException when it is not whole, or the output is another run's by now
     */
    public void commit(String name, long bytes, Path attempt) throws IOException {
        lock.requireHeld();
        FileStatus written = files.getFileStatus(attempt);
        if (written.getLen() != bytes) {
            throw new IOException("'" + attempt + "' has " + written.getLen() + " bytes, not " + bytes);
        }
        Path file = new Path(filesOfRun(), name);
        move(attempt, file);
        small.put(
                new Path(new Path(state, "done"), URLEncoder.encode(name, StandardCharsets.UTF_8) + ".json"),
                StateFiles.object()
                        .put("file", name)
                        .put("bytes", bytes)
                        .put("modified", files.getFileStatus(file).getModificationTime()));
        finished.add(name);
    }

    private void move(Path from, Path to) throws IOException {
        files.mkdirs(to.getParent());
        files.delete(to, false);
        if (!files.rename(from, to)) {
            throw new IOException("'" + from + "' could not be renamed to '" + to + "'");
        }
    }

    /**
     * Adds the files of a folder of this machine to the finished ones, and gives all of them their names: first the tensors, the configuration
     * last. A model that was there goes now.
     */
    public void publish(java.nio.file.Path rest) throws IOException {
        lock.requireHeld();
        List<java.nio.file.Path> local;
        try (Stream<java.nio.file.Path> all = Files.walk(rest)) {
            local = all.filter(Files::isRegularFile).sorted().toList();
        }
        for (java.nio.file.Path file : local) {
            Path to = new Path(filesOfRun(), rest.relativize(file).toString().replace('\\', '/'));
            files.mkdirs(to.getParent());
            files.copyFromLocalFile(true, true, new Path(file.toUri()), to);
        }
        Path publishing = new Path(state, "publishing");
        if (!files.exists(publishing)) {
            if (replaces) {
                removeModel();
            }
            small.put(publishing, StateFiles.object().put("run", run));
        }
        for (Path file : inOrder(filesOfRun())) {
            String name = filesOfRun().toUri().relativize(file.toUri()).getPath();
            move(file, new Path(folder, name));
        }
        files.delete(state, true); // and the lock in it
        lock.close();
    }

    private void removeModel() throws IOException {
        for (FileStatus status : files.listStatus(folder)) {
            String name = status.getPath().getName();
            if ((status.isFile() && WholeFolder.isOfModel(name)) || name.equals(KeptScales.FOLDER)) {
                files.delete(status.getPath(), true);
            }
        }
    }

    private List<Path> inOrder(Path root) throws IOException {
        List<Path> found = new ArrayList<>();
        collect(root, found);
        found.sort(Comparator.comparing((Path p) -> p.getName().equals(ModelConfig.FILE_NAME))
                .thenComparing(p -> p.getName().endsWith(".index.json"))
                .thenComparing(Path::toString));
        return found;
    }

    private void collect(Path root, List<Path> found) throws IOException {
        for (FileStatus status : files.listStatus(root)) {
            if (status.isDirectory()) {
                collect(status.getPath(), found);
            } else {
                found.add(status.getPath());
            }
        }
    }

    /** Forgets all unfinished work: for a run that would fail again in the same way. */
    public void discard() throws IOException {
        files.delete(state, true);
        lock.close();
        if (files.listStatus(folder).length == 0) {
            files.delete(folder, false);
        }
    }

    /** Lets other runs write. What is finished stays for a run that goes on. */
    @Override
    public void close() throws IOException {
        lock.close();
    }
}
