package dev.octet.trainer.checkpoint;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.NoSpaceException;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.cut.Part;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Consumer;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * The checkpoints of a run, {@code RUN/checkpoints/step-N}. Each is written under a hidden name, forced to disk and renamed, so a folder
 * with the final name is complete. Callers ensure that only one process writes to a run ({@link dev.octet.formats.file.FolderLock}).
 */
public final class CheckpointFolder {
    /** Name of the folder in the folder of a run. */
    public static final String NAME = "checkpoints";

    private static final Pattern STEP = Pattern.compile("step-(\\d{1,18})");
    private static final String HIDDEN = ".step-";

    private final Path folder;

    /** @param run folder of the run */
    public CheckpointFolder(Path run) {
        this.folder = run.resolve(NAME);
    }

    /** Folder of a step's checkpoint. */
    public Path path(long step) {
        return folder.resolve("step-" + step);
    }

    /** Steps that have a checkpoint, ascending; checkpoints may be damaged. */
    public List<Long> steps() throws IOException {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.map(p -> STEP.matcher(p.getFileName().toString()))
                    .filter(m -> m.matches())
                    .map(m -> Long.parseLong(m.group(1)))
                    .sorted()
                    .toList();
        }
    }

    /** Removes incomplete checkpoints of killed processes. */
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
     * Writes a checkpoint, then deletes the oldest until {@code keep} are left. Replaces an existing checkpoint of the same step.
     *
     * @param keep at least 1
     * @return its folder
     * @throws IOException when the disk is full, among others; earlier checkpoints are then intact
     */
    public Path write(TrainingState state, int keep) throws IOException {
        return write(state, new Kept(keep, OptionalLong.empty()), CodedMasters.NONE, _ -> {});
    }

    /**
     * Which checkpoints are not deleted.
     *
     * @param newest how many of the newest, at least 1
     * @param best the step of one that is kept besides, however old
     */
    public record Kept(int newest, OptionalLong best) {}

    /**
     * The same for tensors that are brought into memory one by one.
     *
     * @param coded master weights besides those of {@code state}, of a run that trains no adapter
     * @param written called with the name of each parameter and state that has been written
     * @throws IOException as there
     */
    public Path write(TrainingState state, Kept keep, CodedMasters coded, Consumer<String> written) throws IOException {
        Path hidden = prepare(state.step());
        try {
            CheckpointFile.write(hidden, state, coded, written);
            force(hidden);
            publish(hidden, path(state.step()));
        } catch (IOException e) {
            delete(hidden);
            throw NoSpaceException.of(path(state.step()), 0, e); // report the final name, not the hidden one
        } catch (RuntimeException e) {
            delete(hidden);
            throw e;
        }
        retireOld(state.step(), keep);
        return path(state.step());
    }

    /**
     * The ranks that write a checkpoint together.
     *
     * @param shareParameters whether each has parameters of its own, besides states
     * @param parts what this rank has of tensors that are cut, by name
     */
    public record Sharers(Collectives world, boolean shareParameters, Map<String, Part> parts) {
        public Sharers {
            parts = Map.copyOf(parts);
        }
    }

    /**
     * The same by ranks that share the state out: each writes its own share, at the same time as the others, and the first one the rest. The checkpoint has its final
     * name when all have written. All ranks call this with the same step.
     *
     * @param state with this rank's share; what is not shared out only the first rank has
     * @param sharers the ranks
     * @throws IOException when this rank fails
     * @throws dev.octet.formats.error.UnavailableException when another rank fails, or has ended; earlier checkpoints are then intact
     */
    public Path writeShared(
            TrainingState state, Kept keep, CodedMasters coded, Consumer<String> written, Sharers sharers)
            throws IOException {
        Collectives world = sharers.world();
        Path hidden = folder.resolve(HIDDEN + state.step() + ".new");
        Path target = path(state.step());
        Shard shard = new Shard(world.rank(), world.size());
        // a rank that is gone may have left something behind; then the next sweep removes it
        Together.Work undo = () -> delete(hidden);
        try {
            together(world, target, () -> prepare(state.step()), undo);
            List<String> digests = Together.run(
                    world,
                    target,
                    () -> {
                        StringBuilder lines = new StringBuilder();
                        if (world.isFirst()) {
                            lines.append(CheckpointFile.writeJson(hidden, state));
                        }
                        if (sharers.shareParameters() || world.isFirst()) {
                            Shard parameters = sharers.shareParameters() ? shard : Shard.WHOLE;
                            lines.append(CheckpointFile.writeParameters(
                                    hidden,
                                    state,
                                    coded,
                                    new CheckpointFile.Share(parameters, sharers.parts(), written)));
                        }
                        return lines
                                + CheckpointFile.writeState(
                                        hidden, state, new CheckpointFile.Share(shard, sharers.parts(), written));
                    },
                    undo);
            together(
                    world,
                    target,
                    () -> {
                        CheckpointFile.writeSums(hidden, digests);
                        force(hidden);
                        publish(hidden, target);
                        retireOld(state.step(), keep);
                    },
                    undo);
            return target;
        } catch (IOException e) {
            throw NoSpaceException.of(target, 0, e);
        }
    }

    /** Work of the first rank that the others wait for. */
    private static void together(Collectives world, Path target, Together.Work work, Together.Work undo)
            throws IOException {
        Together.run(
                world,
                target,
                () -> {
                    if (world.isFirst()) {
                        work.run();
                    }
                    return "";
                },
                undo);
    }

    private Path prepare(long step) throws IOException {
        Files.createDirectories(folder);
        Path hidden = folder.resolve(HIDDEN + step + ".new");
        delete(hidden);
        return Files.createDirectory(hidden);
    }

    private void retireOld(long written, Kept keep) throws IOException {
        List<Long> steps = steps();
        for (long step : steps.subList(0, Math.max(0, steps.size() - keep.newest()))) {
            if (step != written && step != keep.best().orElse(0)) {
                retire(path(step));
            }
        }
    }

    /** Deletes the checkpoints of later steps, which a run that went back to {@code step} repeats. */
    public void removeAfter(long step) throws IOException {
        for (long later : steps()) {
            if (later > step) {
                retire(path(later));
            }
        }
    }

    private void publish(Path hidden, Path target) throws IOException {
        if (Files.exists(target)) {
            retire(target);
        }
        Files.move(hidden, target, StandardCopyOption.ATOMIC_MOVE);
        force(folder);
    }

    /** Deletes a checkpoint; renames it first, so that a half-deleted folder does not look like a checkpoint. */
    private void retire(Path checkpoint) throws IOException {
        Path hidden = folder.resolve("." + checkpoint.getFileName() + ".old");
        delete(hidden);
        Files.move(checkpoint, hidden, StandardCopyOption.ATOMIC_MOVE);
        delete(hidden);
    }

    /** Makes renames in a folder durable; systems that cannot open folders do this by themselves. */
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
     * @throws InvalidOptionException when there is no checkpoint
     * @throws MalformedModelException when it is damaged; the message suggests the newest good one before it
     */
    public CheckpointFile openNewest() throws IOException {
        List<Long> steps = steps();
        if (steps.isEmpty()) {
            throw nothingThere();
        }
        return open(steps.getLast());
    }

    /**
     * Refuses a folder without a checkpoint: there is nothing to resume.
     *
     * @throws InvalidOptionException when there is none
     */
    public void requireSome() throws IOException {
        if (steps().isEmpty()) {
            throw nothingThere();
        }
    }

    /**
     * Refuses a folder with a checkpoint: a new run would overwrite it.
     *
     * @throws InvalidOptionException when there is one
     */
    public void requireNone() throws IOException {
        List<Long> steps = steps();
        if (!steps.isEmpty()) {
            Path run = folder.getParent();
            throw new InvalidOptionException(
                    "there is a run in the folder, up to step " + steps.getLast(),
                    String.valueOf(run),
                    "resume it with octet train --resume " + run + ", or choose another folder");
        }
    }

    private InvalidOptionException nothingThere() {
        return new InvalidOptionException(
                "there is no checkpoint to resume from", folder.toString(), "start the run without --resume");
    }

    /**
     * Opens the checkpoint of a step.
     *
     * @throws InvalidOptionException when the step has no checkpoint
     * @throws MalformedModelException when it is damaged; the message suggests the newest good one before it
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

    /** Advice for a damaged checkpoint; reads earlier ones until one is good. */
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
            return false; // damaged, too
        }
    }
}
