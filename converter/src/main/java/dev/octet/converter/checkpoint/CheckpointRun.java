package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.core.util.DefaultIndenter;
import com.fasterxml.jackson.core.util.DefaultPrettyPrinter;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.checkpoint.Shard;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.FolderLock;
import dev.octet.formats.safetensors.SafetensorsHeader;
import dev.octet.formats.safetensors.ShardIndex;
import dev.octet.quant.layout.StoredCheckpoint;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Carries out a plan: one file after the other, each under its final name only when complete; the index, the configuration and the files
 * that go along come last, so that no consumer takes an unfinished folder for a model.
 */
public final class CheckpointRun {
    private static final String LOCK = ".octet-lock";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Checkpoint source;
    private final StoredCheckpoint stored;
    private final CheckpointPlan plan;
    private final RunOptions options;

    private CheckpointRun(Checkpoint source, StoredCheckpoint stored, CheckpointPlan plan, RunOptions options) {
        this.source = source;
        this.stored = stored;
        this.plan = plan;
        this.options = options;
    }

    /**
     * Writes the target of a plan. {@code output} becomes a folder; it becomes one file where its name ends in {@code .safetensors} and the
     * plan has one file.
     *
     * @param what what distinguishes this run from others with the same source: recipe, layout, choices
     * @param keptScales where kept scales come from; null without them
     * @throws InvalidOptionException when the output is the source, lies in it or holds it, holds something else, or the unfinished work of
     *     another run
     * @throws dev.octet.formats.error.InvalidDataException when a weight holds a NaN or an infinity
     * @throws IOException when reading or writing fails; finished files stay and the same call goes on after them
     */
    public static CheckpointResult run(
            Checkpoint source,
            StoredCheckpoint stored,
            CheckpointPlan plan,
            Path output,
            Map<String, String> what,
            @Nullable Checkpoint keptScales,
            RunOptions options)
            throws IOException {
        return new CheckpointRun(source, stored, plan, options).write(output, what, keptScales);
    }

    private CheckpointResult write(Path output, Map<String, String> what, @Nullable Checkpoint keptScales)
            throws IOException {
        long start = System.nanoTime();
        refuseInPlace(output);
        ByteCounter counter = new ByteCounter(options.progress(), plan.sourceBytes());
        try (Scratch.Pool pool = new Scratch.Pool()) {
            TileMover mover = new TileMover(source, stored, pool).withKeptScales(keptScales);
            WholeScales whole = new WholeScales(plan, mover);
            ShardWriter writer = new ShardWriter(mover, whole, options.threads(), counter);
            boolean single =
                    output.toString().endsWith(".safetensors") && plan.shards().size() == 1;
            int resumed = 0;
            CarriedFiles carried = CarriedFiles.of(source.folder());
            if (single) {
                refuseExisting(output);
                writer.write(plan.shards().getFirst(), output.toAbsolutePath());
            } else {
                resumed = writeFolder(output.toAbsolutePath(), what, writer, counter, carried);
            }
            return new CheckpointResult(
                    output,
                    plan.sourceBytes(),
                    plan.targetBytes(),
                    (System.nanoTime() - start) / 1e9,
                    resumed,
                    whole.costs(),
                    single
                            ? List.of()
                            : carried.carried().stream().map(Path::toString).toList(),
                    carried.left().stream()
                            .map(Path::toString)
                            .filter(n -> source.shards().stream()
                                    .noneMatch(s -> s.name().equals(n)))
                            .toList());
        }
    }

    /** The output must not be the source, nor inside it, nor around it: what is read would change while it is read. */
    private void refuseInPlace(Path output) throws IOException {
        Path to = real(output.toAbsolutePath().normalize());
        Path from = source.folder().toRealPath();
        boolean file = output.toString().endsWith(".safetensors");
        boolean same = file
                ? source.shards().stream().anyMatch(s -> real(s.path()).equals(to))
                : to.equals(from) || to.startsWith(from) || from.startsWith(to);
        if (same) {
            throw new InvalidOptionException(
                    "the output is, holds or lies in the checkpoint that is read",
                    output.toString(),
                    "write to a folder beside it; nothing is rewritten in place");
        }
    }

    /** The real path of what exists, with the rest of the name after it. */
    private static Path real(Path path) {
        try {
            return path.toRealPath();
        } catch (IOException e) {
            Path parent = path.getParent();
            Path name = path.getFileName();
            return parent == null || name == null ? path : real(parent).resolve(name);
        }
    }

    private void refuseExisting(Path file) {
        if (Files.exists(file) && !options.force()) {
            throw new InvalidOptionException(
                    "'" + file + "' exists", "--output", "choose another name, or overwrite it with --force");
        }
    }

    private int writeFolder(
            Path folder, Map<String, String> what, ShardWriter writer, ByteCounter counter, CarriedFiles carried)
            throws IOException {
        boolean made = !Files.exists(folder);
        requireUsable(folder);
        Files.createDirectories(folder);
        int resumed = 0;
        try (FolderLock _ = FolderLock.of(folder, LOCK)) {
            if (options.force() && !Journal.isIn(folder)) {
                removeEarlierModel(folder);
            }
            Journal journal = Journal.open(folder, fingerprint(what), options.force());
            try {
                for (ShardPlan shard : plan.shards()) {
                    if (journal.has(folder, shard.name())) {
                        resumed++;
                        counter.add(shard.sourceBytes());
                    } else {
                        writer.write(shard, folder.resolve(shard.name()));
                        journal.add(folder, shard.name());
                    }
                    source.trimOpenFiles();
                }
                writeRest(folder, carried);
            } catch (OctetException e) {
                // The input itself is at fault: the same command would stop again, so nothing is kept for it.
                discard(folder);
                throw e;
            }
            journal.delete();
        } catch (OctetException e) {
            if (made) {
                deleteIfEmpty(folder);
            }
            throw e;
        }
        return resumed;
    }

    private void requireUsable(Path folder) throws IOException {
        if (!Files.exists(folder) || options.force() || Journal.isIn(folder)) {
            return;
        }
        if (!Files.isDirectory(folder)) {
            refuseExisting(folder);
        }
        try (Stream<Path> files = Files.list(folder)) {
            if (files.anyMatch(f -> !String.valueOf(f.getFileName()).equals(LOCK))) {
                throw new InvalidOptionException(
                        "'" + folder + "' is not empty",
                        "--output",
                        "choose another folder, or overwrite the model in it with --force");
            }
        }
    }

    private void removeEarlierModel(Path folder) throws IOException {
        List<Path> earlier;
        try (Stream<Path> files = Files.list(folder)) {
            earlier = files.filter(f -> f.toString().endsWith(".safetensors")
                            || f.endsWith(ShardIndex.FILE_NAME)
                            || f.endsWith(ModelConfig.FILE_NAME)
                            || f.endsWith("hf_quant_config.json"))
                    .toList();
        }
        for (Path file : earlier) {
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
            fingerprint.put(
                    "source file " + shard.name(),
                    Files.size(shard.path()) + " bytes of " + Files.getLastModifiedTime(shard.path()));
        }
        return fingerprint;
    }

    private void writeRest(Path folder, CarriedFiles carried) throws IOException {
        carried.copyTo(folder);
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
            writeJson(folder.resolve(file.getKey()), file.getValue());
        }
        if (plan.config().isPresent()) {
            writeJson(folder.resolve(ModelConfig.FILE_NAME), plan.config().get());
        }
    }

    private static void writeJson(Path file, JsonNode json) throws IOException {
        DefaultPrettyPrinter printer = new DefaultPrettyPrinter();
        DefaultIndenter indenter = new DefaultIndenter("  ", "\n");
        printer.indentObjectsWith(indenter);
        printer.indentArraysWith(indenter);
        String text = JSON.writer(printer).writeValueAsString(json) + "\n";
        Path part = file.resolveSibling("." + file.getFileName() + ".part");
        Files.write(part, text.getBytes(StandardCharsets.UTF_8));
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }
}
