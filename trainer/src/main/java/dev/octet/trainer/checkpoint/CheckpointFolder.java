package dev.octet.trainer.checkpoint;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.NoSpaceException;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The checkpoints of a run, {@code RUN/checkpoints/step-N}. Each is made under a hidden name, forced to disk and renamed, so a folder with
 * the final name is complete. Callers make sure that one process writes a run at a time ({@link dev.octet.formats.file.FolderLock}).
 */
public final class CheckpointFolder {
    private static final Pattern NAME = Pattern.compile("step-(\\d{1,18})");
    private static final String HIDDEN = ".step-";

    private final Path folder;

    /** @param run folder of the run */
    public CheckpointFolder(Path run) {
        this.folder = run.resolve("checkpoints");
    }

    /** Where the checkpoint of a step lies. */
    public Path path(long step) {
        return folder.resolve("step-" + step);
    }

    /** Steps there are checkpoints of, ascending; they may be damaged. */
    public List<Long> steps() throws IOException {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.map(p -> NAME.matcher(p.getFileName().toString()))
                    .filter(m -> m.matches())
                    .map(m -> Long.parseLong(m.group(1)))
                    .sorted()
                    .toList();
        }
    }

    /** Removes what killed processes left half-made. */
    public void sweep() throws IOException {
        if (!Files.isDirectory(folder)) {
            return;
        }
        List<Path> hidden;
        try (Stream<Path> entries = Files.list(folder)) {
            hidden = entries.filter(p -> p.getFileName().toString().startsWith(HIDDEN))
                    .toList();
        }
        for (Path path : hidden) {
            delete(path);
        }
    }

    /**
     * Writes a checkpoint, then deletes the oldest ones until {@code keep} are left. One of the same step is replaced.
     *
     * @return its folder
     * @throws IOException when there is no space; earlier checkpoints are then all there
     */
    public Path write(TrainingState state, int keep) throws IOException {
        Files.createDirectories(folder);
        Path hidden = folder.resolve(HIDDEN + state.step() + ".new");
        delete(hidden);
        Files.createDirectory(hidden);
        try {
            CheckpointFile.write(hidden, state);
            force(hidden);
            publish(hidden, path(state.step()));
        } catch (IOException e) {
            delete(hidden);
            throw NoSpaceException.of(path(state.step()), 0, e); // as the user knows it, not by its hidden name
        } catch (RuntimeException e) {
            delete(hidden);
            throw e;
        }
        List<Long> steps = steps();
        for (long step : steps.subList(0, Math.max(0, steps.size() - keep))) {
            if (step != state.step()) {
                retire(path(step));
            }
        }
        return path(state.step());
    }

    private void publish(Path hidden, Path target) throws IOException {
        if (Files.exists(target)) {
            retire(target);
        }
        Files.move(hidden, target, StandardCopyOption.ATOMIC_MOVE);
        force(folder);
    }

    /** Takes the name away first: a half-deleted folder must not look like a checkpoint. */
    private void retire(Path checkpoint) throws IOException {
        Path hidden = folder.resolve("." + checkpoint.getFileName() + ".old");
        delete(hidden);
        Files.move(checkpoint, hidden, StandardCopyOption.ATOMIC_MOVE);
        delete(hidden);
    }

    /** Makes names in a folder durable; systems that cannot open folders do so by themselves. */
    private static void force(Path folder) throws IOException {
        if (System.getProperty("os.name").startsWith("Windows")) {
            return;
        }
        try (FileChannel channel = FileChannel.open(folder, StandardOpenOption.READ)) {
            channel.force(true);
        }
    }

    private static void delete(Path path) throws IOException {
        if (!Files.exists(path)) {
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

    /**
     * Opens the newest checkpoint.
     *
     * @throws InvalidOptionException when there is none
     * @throws MalformedModelException when it is damaged; the message offers the one before
     */
    public CheckpointFile openNewest() throws IOException {
        List<Long> steps = steps();
        if (steps.isEmpty()) {
            throw nothingThere();
        }
        return open(steps.getLast());
    }

    /** Says that there is no checkpoint. */
    public InvalidOptionException nothingThere() {
        return new InvalidOptionException(
                "there is no checkpoint to go on from", folder.toString(), "start the run without --resume");
    }

    /**
     * Opens the checkpoint of a step.
     *
     * @throws InvalidOptionException when there is none of this step
     * @throws MalformedModelException when it is damaged; the message offers the newest good one before it
     */
    public CheckpointFile open(long step) throws IOException {
        List<Long> steps = steps();
        if (!steps.contains(step)) {
            throw new InvalidOptionException(
                    "there is no checkpoint of step " + step, folder.toString(), "choose one of " + steps);
        }
        try {
            return CheckpointFile.open(path(step));
        } catch (MalformedModelException e) {
            throw new MalformedModelException(e.what(), e.where(), offer(steps, step), e);
        }
    }

    /** What to do about a damaged checkpoint: earlier ones are read until one is good. */
    private String offer(List<Long> steps, long damaged) throws IOException {
        for (long step : steps.reversed()) {
            if (step < damaged && isGood(step)) {
                return "step-" + step + " is good: resume with --from-step " + step + ", or export it with --step "
                        + step;
            }
        }
        return "no earlier checkpoint is good: start the run again in another folder";
    }

    private boolean isGood(long step) throws IOException {
        try (CheckpointFile file = CheckpointFile.open(path(step))) {
            return file.state().step() == step;
        } catch (MalformedModelException e) {
            return false; // one more that is damaged
        }
    }
}
