package dev.octet.spark.output;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Who writes to an output: one driver. Hadoop's file systems have no locks, so it is a file that the holder renews; one that was not renewed
 * for {@link #EXPIRY}, or whose holder was a process of this machine that is gone, may be taken over. The clocks of drivers must agree to a
 * minute.
 */
final class OutputLock implements AutoCloseable {
    static final String FILE_NAME = "lock.json";

    /** Many times the renewal: a pause of the driver, or of the file system's name node, costs no lock. */
    static final Duration EXPIRY = Duration.ofMinutes(2);

    private static final Duration RENEWAL = Duration.ofSeconds(10);
    private static final java.nio.file.Path PID_NAMESPACE = java.nio.file.Path.of("/proc/self/ns/pid");
    private static final System.Logger LOG = System.getLogger(OutputLock.class.getName());

    private final FileSystem files;
    private final Path file;
    private final String token;
    private final ScheduledExecutorService renewal;
    private volatile boolean lost;

    private OutputLock(FileSystem files, Path file, String token) {
        this.files = files;
        this.file = file;
        this.token = token;
        this.renewal = Executors.newSingleThreadScheduledExecutor(
                Thread.ofPlatform().daemon().name("octet-output-lock").factory());
        long seconds = RENEWAL.toSeconds();
        var _ = renewal.scheduleWithFixedDelay(this::renew, seconds, seconds, TimeUnit.SECONDS);
    }

    /**
     * Takes the lock.
     *
     * @param state the folder it lies in, which is there
     * @param owner how messages call the holder: the application's name and id
     * @throws InvalidOptionException when another run holds it; says which
     */
    static OutputLock take(FileSystem files, Path state, String owner) throws IOException {
        Path file = new Path(state, FILE_NAME);
        String token = UUID.randomUUID().toString();
        StateFiles small = new StateFiles(files);
        ObjectNode content = StateFiles.object()
                .put("token", token)
                .put("owner", owner)
                .put("host", host())
                .put("pids", pidNamespace())
                .put("pid", ProcessHandle.current().pid());
        if (files.exists(file)) {
            ObjectNode holder = small.read(file);
            Duration age = Duration.ofMillis(
                    System.currentTimeMillis() - files.getFileStatus(file).getModificationTime());
            if (!isGone(holder) && age.compareTo(EXPIRY) < 0) {
                throw held(state, holder, age);
            }
            Path stale = new Path(state, "stale-" + token);
            if (!files.rename(file, stale)) { // of several that find it, one renames it
                throw held(state, holder, age);
            }
            files.delete(stale, false);
        }
        try {
            small.create(file, content);
        } catch (FileAlreadyExistsException e) {
            throw held(state, small.read(file), Duration.ZERO);
        }
        // two may create it at once where creating is not atomic: the last one's is there
        ObjectNode there = small.read(file);
        if (!there.path("token").asText().equals(token)) {
            throw held(state, there, Duration.ZERO);
        }
        return new OutputLock(files, file, token);
    }

    private static boolean isGone(ObjectNode holder) {
        return holder.path("host").asText().equals(host())
                && holder.path("pids").asText().equals(pidNamespace())
                && holder.path("pid").isIntegralNumber()
                && ProcessHandle.of(holder.path("pid").asLong()).isEmpty();
    }

    private static InvalidOptionException held(Path state, ObjectNode holder, Duration age) {
        String owner = holder.path("owner").asText("");
        return new InvalidOptionException(
                "another run writes to this output: " + (owner.isEmpty() ? "it has just begun" : owner)
                        + (holder.has("host")
                                ? " on " + holder.path("host").asText() + ", process "
                                        + holder.path("pid").asText()
                                : ""),
                String.valueOf(state.getParent()),
                "choose another output, or wait for it; a run that died is forgotten " + EXPIRY.toSeconds()
                        + " s after its last sign of life, which was " + Math.max(0, age.toSeconds()) + " s ago");
    }

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (java.net.UnknownHostException e) {
            return "unknown host " + UUID.randomUUID(); // equal to no other
        }
    }

    /** In a container of its own, another process has the same number. */
    private static String pidNamespace() {
        try {
            return Files.isSymbolicLink(PID_NAMESPACE)
                    ? Files.readSymbolicLink(PID_NAMESPACE).toString()
                    : "";
        } catch (IOException e) {
            return "unknown";
        }
    }

    private void renew() {
        try {
            if (!isOwn()) {
                lost = true;
            } else {
                files.setTimes(file, System.currentTimeMillis(), -1);
            }
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "the output's lock could not be renewed; tried again", e);
        }
    }

    private boolean isOwn() throws IOException {
        return files.exists(file)
                && new StateFiles(files).read(file).path("token").asText().equals(token);
    }

    /**
     * Holds that the lock is still this run's, before something gets its final name.
     *
     * @throws IOException when another run has taken it over
     */
    void requireHeld() throws IOException {
        if (lost || !isOwn()) {
            throw new IOException(
                    "another run has taken over the output '" + file.getParent().getParent()
                            + "': this one gave no sign of life for " + EXPIRY.toSeconds() + " s");
        }
    }

    /** Gives the lock up. */
    @Override
    public void close() throws IOException {
        renewal.shutdownNow();
        if (!lost && isOwn()) {
            files.delete(file, false);
        }
    }
}
