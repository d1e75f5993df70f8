package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The scales of a dequantised checkpoint, kept in a subfolder of the checkpoint that loaders ignore. Quantising with them restores the
 * original codes; scales computed from the dequantised values can differ (in MXFP8, a twentieth of the blocks gets an exponent less by one,
 * because the largest value of the block was rounded down).
 */
public final class KeptScales {
    /** Subfolder of the checkpoint's folder. */
    public static final String FOLDER = "octet-scales";

    static final String FILE = "scales.safetensors";
    private static final long CHUNK = 1L << 22;

    private KeptScales() {}

    /**
     * Opens the scales kept in a checkpoint's folder.
     *
     * @throws UnsupportedModelException when the folder has no kept scales
     */
    public static Checkpoint open(Checkpoint checkpoint) throws IOException {
        Path file = checkpoint.folder().resolve(FOLDER).resolve(FILE);
        if (!Files.exists(file)) {
            throw new UnsupportedModelException(
                    "this checkpoint has no kept scales",
                    file.toString(),
                    "dequantise with --keep-scales first, or quantise without it");
        }
        return Checkpoint.open(file);
    }

    /** Removes kept scales from a folder. */
    static void delete(Path output) throws IOException {
        Files.deleteIfExists(output.resolve(FOLDER).resolve(FILE));
    }

    /**
     * Scales that came about elsewhere, of one weight.
     *
     * @param multipliers F32, one for each block of the weight as the target has them
     * @param global the multiplier above them in schemes of two levels, which {@code multipliers} include; null elsewhere
     */
    public record Given(Tensor multipliers, @Nullable Float global) {}

    /**
     * Writes scales that came about elsewhere, so that quantising the checkpoint in {@code folder} takes them.
     *
     * @param plan how it will be quantised, planned without kept scales
     * @param given by the own name of each weight that the plan quantises
     * @throws IllegalArgumentException when a weight has none, or another number of them than the target
     */
    public static void write(CheckpointPlan plan, Map<String, Given> given, Path folder) throws IOException {
        Map<String, Tensor> stored = new LinkedHashMap<>();
        for (ShardPlan shard : plan.shards()) {
            for (TensorStep step : shard.steps()) {
                if (step instanceof TensorStep.Quantize q) {
                    Given own = given.get(q.name());
                    ScaleTensor scale = q.target().scale();
                    if (own == null || scale == null) {
                        throw new IllegalArgumentException("no scales for " + q.name());
                    }
                    store(own, scale, q.target().globalScale(), stored);
                }
            }
        }
        Path into = Files.createDirectories(folder.resolve(FOLDER));
        SafetensorsWriter.write(into.resolve(FILE), stored, Map.of("format", "pt"));
    }

    private static void store(
            Given given, ScaleTensor scale, @Nullable ScaleTensor global, Map<String, Tensor> stored) {
        long count = given.multipliers().shape().elementCount();
        if (count != scale.spec().shape().elementCount()) {
            throw new IllegalArgumentException(count + " scales for " + scale.spec());
        }
        Tensor blocks = Tensor.allocate(Arena.ofAuto(), given.multipliers().spec());
        Float above = given.global();
        for (long i = 0; i < count; i++) {
            float multiplier = given.multipliers().bytes().getAtIndex(Tensor.F32_LE, i);
            blocks.bytes().setAtIndex(Tensor.F32_LE, i, above == null ? multiplier : multiplier / above);
        }
        Tensor made = Tensor.allocate(Arena.ofAuto(), scale.spec());
        ScaleForms.write(scale, blocks.bytes(), count, made.bytes());
        stored.put(scale.name(), made);
        if (global != null) {
            Tensor one = Tensor.allocate(Arena.ofAuto(), global.spec());
            float second = above == null ? 1 : above;
            one.bytes()
                    .set(Tensor.F32_LE, 0, global.direction() == ScaleTensor.Direction.DIVISOR ? 1 / second : second);
            stored.put(global.name(), one);
        }
    }

    /** Writes the scales of all quantised weights of {@code source} into the subfolder of the checkpoint in {@code output}. */
    public static void write(Checkpoint source, StoredCheckpoint stored, Path output) throws IOException {
        List<TensorSpec> specs = new ArrayList<>();
        stored.weights()
                .values()
                .forEach(w -> specs.addAll(w.tensors().subList(1, w.tensors().size())));
        Path folder = Files.createDirectories(output.resolve(FOLDER));
        SafetensorsWriter.write(folder.resolve(FILE), specs, Map.of("format", "pt"), (spec, sink) -> {
            StoredTensor tensor = Objects.requireNonNull(source.tensor(spec.name()));
            for (long from = 0; from < spec.byteSize(); from += CHUNK) {
                try (Arena arena = Arena.ofConfined()) {
                    MemorySegment bytes = arena.allocate(Math.min(CHUNK, spec.byteSize() - from));
                    source.read(tensor, from, bytes);
                    sink.write(bytes);
                }
            }
        });
    }
}
