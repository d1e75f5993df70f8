package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.StoredCheckpoint;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;

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
