package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.FolderLock;
import dev.octet.formats.file.PartFile;
import dev.octet.formats.file.RunPaths;
import dev.octet.formats.model.Shard;
import dev.octet.formats.safetensors.SafetensorsHeader;
import dev.octet.formats.safetensors.ShardIndex;
import dev.octet.quant.layout.StoredCheckpoint;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Stream;
import java.util.zip.CRC32;
import org.jspecify.annotations.Nullable;

/**
 * Carries out a plan file by file; each file gets its final name only when complete. The index, the configuration and the copied files come
 * last, so that no consumer takes an unfinished folder for a model.
 */
public final class CheckpointRun {
    private static final System.Logger LOG = System.getLogger(CheckpointRun.class.getName());
    private static final String LOCK = ".octet-lock";
    private static final String EXTENSION = ".safetensors";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Checkpoint source;
    private final StoredCheckpoint stored;
    private final CheckpointPlan plan;
    private final boolean keepScales;
    private final StreamOptions options;

    private CheckpointRun(Checkpoint source, StoredCheckpoint stored, CheckpointPlan plan, StreamOptions options) {
        this.source = source;
        this.stored = stored;
        this.plan = plan;
        // the scales of the source go into a folder with the weights
        this.keepScales = plan.goal() instanceof ConversionRequest.Dequantize d && d.keepScales();
        this.options = options;
    }

    /**
     * Writes the target of a plan: a single file if the name of {@code output} ends in {@code .safetensors} and the plan has one file,
     * otherwise a folder.
     *
     * @param keptScales the source of kept scales; null without them
     * @throws InvalidOptionException when the output is the source, lies in it or contains it, or holds other files or the unfinished work
     *     of another run
     * @throws dev.octet.formats.error.InvalidDataException when a weight holds a NaN or an infinity
     * @throws IOException when reading or writing fails; finished files stay, and the same call resumes after them
     */
    public static CheckpointResult run(
            Checkpoint source,
            StoredCheckpoint stored,
            CheckpointPlan plan,
            Path output,
            @Nullable Checkpoint keptScales,
            StreamOptions options)
            throws IOException {
        return new CheckpointRun(source, stored, plan, options).write(output, keptScales);
    }

    private CheckpointResult write(Path output, @Nullable Checkpoint keptScales) throws IOException {
        long start = System.nanoTime();
        boolean single = isSingle(output);
        requireApart(output, single);
        ByteCounter counter = new ByteCounter(options.progress(), plan.sourceBytes());
        try (TileScratch.Pool pool = new TileScratch.Pool()) {
            TileMover mover = mover(pool, keptScales);
            TensorAmax whole = new TensorAmax(plan, mover);
            ShardWriter writer = new ShardWriter(mover, whole, options.threads(), counter);
            int resumed = 0;
            AuxiliaryFiles carried = auxiliary();
            if (single) {
                writeFile(output.toAbsolutePath(), writer);
            } else {
                resumed = writeFolder(output.toAbsolutePath(), plan.fingerprint(), writer, counter, carried);
            }
            return new CheckpointResult(
                    output,
                    plan.sourceBytes(),
                    plan.targetBytes(),
                    (System.nanoTime() - start) / 1e9,
                    resumed,
                    whole.costs(),
                    mover.measures(plan),
                    mover.rounded(plan),
                    single
                            ? List.of()
                            : carried.carried().stream().map(Path::toString).toList(),
                    carried.left().stream().map(Path::toString).toList());
        }
    }

    private TileMover mover(TileScratch.Pool pool, @Nullable Checkpoint keptScales) {
        return new TileMover(source, stored, pool, plan.merged(), plan.rounding()).withKeptScales(keptScales);
    }

    private AuxiliaryFiles auxiliary() throws IOException {
        return AuxiliaryFiles.of(source.folder(), ownFiles(source));
    }

    /** The files that hold tensors of a checkpoint, by their paths in its folder, and the names that its tensors' files will have. */
    private static Set<String> ownFiles(Checkpoint source) {
        Set<String> own = new HashSet<>();
        for (Shard shard : source.shards()) {
            own.add(shard.name());
            for (Path file : shard.files()) {
                Path absolute = file.toAbsolutePath();
                if (absolute.startsWith(source.folder())) {
                    own.add(source.folder().relativize(absolute).toString());
                }
            }
        }
        return own;
    }

    /**
     * Writes one tensor file of a plan, where several processes share the files of a run. The bytes are those that {@link #run} writes.
     *
     * @param shard one of the plan's
     * @param file where, in a folder that is there
     * @param keptScales the source of kept scales; null without them
     * @throws dev.octet.formats.error.InvalidDataException when a weight holds a NaN or an infinity
     * @throws IOException when reading or writing fails; nothing is left then
     */
    public static WrittenShard writeShard(
            Checkpoint source,
            StoredCheckpoint stored,
            CheckpointPlan plan,
            ShardPlan shard,
            Path file,
            @Nullable Checkpoint keptScales,
            StreamOptions options)
            throws IOException {
        CheckpointRun run = new CheckpointRun(source, stored, plan, options);
        try (TileScratch.Pool pool = new TileScratch.Pool()) {
            TileMover mover = run.mover(pool, keptScales);
            TensorAmax whole = new TensorAmax(plan, mover);
            ByteCounter counter = new ByteCounter(options.progress(), shard.sourceBytes());
            new ShardWriter(mover, whole, options.threads(), counter).write(shard, file);
            return new WrittenShard(
                    shard.name(),
                    shard.sourceBytes(),
                    shard.header().fileBytes(),
                    whole.costs(),
                    mover.measures(plan),
                    mover.rounded(plan));
        }
    }

    /**
     * Writes what a plan's folder holds besides the tensor files: copied files first, the index and the configuration last.
     *
     * @param folder is there
     */
    public static AuxiliaryFiles writeRest(Checkpoint source, StoredCheckpoint stored, CheckpointPlan plan, Path folder)
            throws IOException {
        CheckpointRun run = new CheckpointRun(source, stored, plan, StreamOptions.defaults());
        AuxiliaryFiles carried = run.auxiliary();
        run.writeRest(folder, carried);
        return carried;
    }

    /** What a run of a plan is known by when it is resumed: the plan, its choices, the files of the source. */
    public static Map<String, String> identity(Checkpoint source, StoredCheckpoint stored, CheckpointPlan plan)
            throws IOException {
        Map<String, String> identity = new LinkedHashMap<>();
        new CheckpointRun(source, stored, plan, StreamOptions.defaults())
                .fingerprint(plan.fingerprint())
                .properties()
                .forEach(e -> identity.put(e.getKey(), e.getValue().asText()));
        return identity;
    }

    /** Whether the output is a single file. */
    private boolean isSingle(Path output) {
        if (!output.toString().endsWith(EXTENSION) || Files.isDirectory(output)) {
            return false;
        }
        if (plan.shards().size() > 1 || keepScales) {
            throw new InvalidOptionException(
                    keepScales ? "scales are kept in a folder" : plan.shards().size() + " files do not go into one",
                    "--output " + output,
                    "give the name of a folder");
        }
        return true;
    }

    /** Refuses an output that would change the source during reading. A folder output copies all files of the source's folder. */
    private void requireApart(Path output, boolean single) throws IOException {
        if (single) {
            requireApart(
                    source,
                    ModelFile.reading(RunPaths.none().writing("--output", output), "the checkpoint", source.path()));
        } else {
            requireApart(source, output);
        }
    }

    /**
     * Refuses a folder that would change the source during reading.
     *
     * @throws InvalidOptionException when it is the source's, lies in it or contains it
     */
    public static void requireApart(Checkpoint source, Path folder) throws IOException {
        requireApart(
                source, RunPaths.none().writingFolder("--output", folder).reading("the checkpoint", source.folder()));
    }

    private static void requireApart(Checkpoint source, RunPaths outputs) throws IOException {
        RunPaths paths = outputs;
        for (Shard shard : source.shards()) {
            for (Path file : shard.files()) {
                paths = paths.reading("the checkpoint", file);
            }
        }
        paths.requireApart();
    }

    private void writeFile(Path file, ShardWriter writer) throws IOException {
        WholeFolder.requireFree(file, options.force());
        Path folder = Objects.requireNonNull(file.getParent());
        try (FolderLock _ = FolderLock.of(folder, "." + file.getFileName() + ".lock")) {
            writer.write(plan.shards().getFirst(), file);
        }
    }

    private int writeFolder(
            Path folder, Map<String, String> what, ShardWriter writer, ByteCounter counter, AuxiliaryFiles carried)
            throws IOException {
        boolean made = !Files.exists(folder);
        requireUsable(folder);
        Files.createDirectories(folder);
        int resumed = 0;
        try (FolderLock _ = FolderLock.of(folder, LOCK)) {
            boolean replaces = options.force() && !Journal.isIn(folder) && !isFree(folder);
            Path work = replaces ? folder.resolve(WholeFolder.NEW) : folder;
            Journal journal = replaces ? journalBeside(work, what) : journalIn(folder, what);
            try {
                for (ShardPlan shard : plan.shards()) {
                    if (journal.has(work, shard.name())) {
                        resumed++;
                        counter.add(shard.sourceBytes());
                    } else {
                        Path file = work.resolve(shard.name());
                        Files.createDirectories(Objects.requireNonNull(file.getParent())); // an index may name sub/file
                        writer.write(shard, file);
                        journal.add(work, shard.name());
                    }
                }
                writeRest(work, carried);
            } catch (OctetException e) {
                // The input is at fault: the same command would stop again, so there is nothing to resume.
                if (replaces) {
                    WholeFolder.delete(work);
                } else {
                    discard(folder);
                }
                throw e;
            }
            if (replaces) { // moves the journal too: after a kill here, the same command places the remaining files or
                // makes them again
                WholeFolder.place(work, folder);
            } else {
                journal.delete();
            }
        } catch (OctetException | IOException e) {
            if (made) {
                deleteIfEmpty(folder);
            }
            throw e;
        }
        return resumed;
    }

    private void requireUsable(Path folder) throws IOException {
        WholeFolder.requireFolder(folder);
        if (!Files.exists(folder) || options.force() || Journal.isIn(folder) || isFree(folder)) {
            return;
        }
        throw new InvalidOptionException(
                "'" + folder + "' is not empty",
                "--output",
                "choose another folder, or overwrite the model in it with --force");
    }

    /** Whether a folder is empty, or holds only what a process killed at its start leaves: a lock and half a journal. */
    private static boolean isFree(Path folder) throws IOException {
        Path journal = PartFile.partOf(folder.resolve(Journal.FILE_NAME));
        try (Stream<Path> files = Files.list(folder)) {
            return files.allMatch(f -> f.equals(folder.resolve(LOCK)) || f.equals(journal));
        }
    }

    /** The journal of a folder that gets its files one by one. */
    private Journal journalIn(Path folder, Map<String, String> what) throws IOException {
        if (options.force()) { // the rest of an unfinished run
            WholeFolder.removeModel(folder);
        }
        removeTemporaries(folder);
        return Journal.open(folder, fingerprint(what), options.force());
    }

    /** The journal of a folder that replaces another when complete: resumes the same command's work, otherwise starts over. */
    private Journal journalBeside(Path work, Map<String, String> what) throws IOException {
        ObjectNode fingerprint = fingerprint(what);
        if (Journal.isIn(work)) {
            try {
                removeTemporaries(work);
                return Journal.open(work, fingerprint, false);
            } catch (InvalidOptionException e) {
                LOG.log(System.Logger.Level.DEBUG, "another run was not finished; --force starts over", e);
            }
        }
        WholeFolder.delete(work);
        Files.createDirectory(work);
        return Journal.open(work, fingerprint, true);
    }

    private static void removeTemporaries(Path folder) throws IOException {
        removeTemporary(folder, ShardIndex.FILE_NAME);
        removeTemporary(folder.resolve(KeptScales.FOLDER), KeptScales.FILE);
    }

    /** Removes the temporary files of killed processes; each process used its own name. */
    private static void removeTemporary(Path folder, String name) throws IOException {
        if (!Files.isDirectory(folder)) {
            return;
        }
        List<Path> left;
        try (Stream<Path> files = Files.list(folder)) {
            left = files.filter(f -> {
                        String n = String.valueOf(f.getFileName());
                        return n.startsWith("." + name + ".") && n.endsWith(".tmp");
                    })
                    .toList();
        }
        for (Path file : left) {
            Files.delete(file);
        }
    }

    private void discard(Path folder) throws IOException {
        for (ShardPlan shard : plan.shards()) {
            Files.deleteIfExists(folder.resolve(shard.name()));
        }
        Files.deleteIfExists(folder.resolve(Journal.FILE_NAME));
    }

    private static void deleteIfEmpty(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            if (files.findAny().isPresent()) {
                return;
            }
        }
        Files.delete(folder);
    }

    private ObjectNode fingerprint(Map<String, String> what) throws IOException {
        ObjectNode fingerprint = JSON.createObjectNode();
        what.forEach(fingerprint::put);
        for (Shard shard : source.shards()) {
            for (Path file : shard.files()) {
                String name = file.equals(shard.path()) ? shard.name() : String.valueOf(file.getFileName());
                fingerprint.put(
                        "source file " + name, Files.size(file) + " bytes of " + Files.getLastModifiedTime(file));
            }
        }
        CRC32 names = new CRC32(); // the decisions depend on configuration and kept scales too
        plan.shards().forEach(s -> names.update((s.name() + s.header().entries()).getBytes(StandardCharsets.UTF_8)));
        fingerprint.put("plan", Long.toHexString(names.getValue()));
        return fingerprint;
    }

    private void writeRest(Path folder, AuxiliaryFiles carried) throws IOException {
        carried.copyTo(folder);
        if (keepScales) {
            KeptScales.write(source, stored, folder);
        }
        if (source.index().isPresent() || plan.shards().size() > 1) {
            Map<String, String> weightMap = new LinkedHashMap<>();
            long bytes = 0;
            for (ShardPlan shard : plan.shards()) {
                for (SafetensorsHeader.Entry e : shard.header().entries()) {
                    weightMap.put(e.spec().name(), shard.name());
                    bytes += e.spec().byteSize();
                }
            }
            new ShardIndex(weightMap, OptionalLong.of(bytes)).write(folder.resolve(ShardIndex.FILE_NAME));
        }
        for (Map.Entry<String, ObjectNode> file : plan.files().entrySet()) {
            ModelConfig.write(folder.resolve(file.getKey()), file.getValue());
        }
        if (plan.config().isPresent()) {
            ModelConfig.write(
                    folder.resolve(ModelConfig.FILE_NAME), plan.config().get());
        }
    }
}
