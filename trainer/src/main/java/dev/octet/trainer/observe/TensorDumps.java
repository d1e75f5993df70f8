package dev.octet.trainer.observe;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.op.fp8.QuantizedMatrix;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Writes the tensors of a rank to {@code tensor_dumps/rank_0/iter_000012/LAYER_activation.safetensors}: the tree of Transformer Engine's DumpTensors, with
 * safetensors in place of pickled files. A file holds {@code high_precision}, the tensor before it is quantised, and {@code quantized}, its codes,
 * with {@code quantized.scale_inv}, the scales of their blocks; {@code quantized_columnwise} and its scales where the layer has other codes for sums
 * along the first axis. Weights and their gradients are [out, in]. Of several micro-batches of a rank the last one's file stays; of layers that ranks share each writes its part.
 */
public final class TensorDumps {
    /** Its folder in a run's. */
    public static final String NAME = "tensor_dumps";

    private static final String FORBIDDEN = "[/\\\\:*?\"<>| .\\p{Cntrl}]";

    private final Path folder;
    private final int rank;

    /**
     * @param folder of the run
     * @param rank number of this one among all
     */
    public TensorDumps(Path folder, int rank) {
        this.folder = folder;
        this.rank = rank;
    }

    /** Where the file of a tensor lies. */
    Path file(long iteration, String layer, ObservedTensor tensor) {
        return folder.resolve(NAME)
                .resolve("rank_" + rank)
                .resolve(String.format(Locale.ROOT, "iter_%06d", iteration))
                .resolve((layer + "_" + tensor.label()).replaceAll(FORBIDDEN, "_") + ".safetensors");
    }

    /**
     * Writes what a feature asks for; no file when there is none of it.
     *
     * @param layer module of the Linear
     */
    public void write(long iteration, String layer, Feature.DumpTensors feature, Sample sample, LiveCast live)
            throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            Map<String, Tensor> tensors = new LinkedHashMap<>();
            if (feature.highPrecision()) {
                CpuTensor x = sample.values();
                put(tensors, "high_precision", x.dtype(), x.bytes(), sample, arena);
            }
            Map<String, String> metadata = new LinkedHashMap<>();
            metadata.put("layer", layer);
            metadata.put("tensor", feature.tensor().label());
            metadata.put("iteration", Long.toString(iteration));
            if (feature.quantised()) {
                QuantizedMatrix rowwise = live.codes(sample, false);
                QuantizedMatrix columnwise = live.codes(sample, true);
                codes(tensors, "quantized", rowwise, sample, arena);
                if (rowwise == null || (columnwise != null && !columnwise.form().equals(rowwise.form()))) {
                    codes(tensors, "quantized_columnwise", columnwise, sample, arena);
                }
            }
            if (!tensors.isEmpty()) {
                Path file = file(iteration, layer, feature.tensor());
                Files.createDirectories(requireNonNull(file.getParent()));
                SafetensorsWriter.write(file, tensors, metadata);
            }
        }
    }

    private static void codes(
            Map<String, Tensor> tensors, String name, @Nullable QuantizedMatrix codes, Sample sample, Arena arena) {
        if (codes == null) {
            return;
        }
        put(tensors, name, codes.form().format().dtype(), codes.codes(), sample, arena);
        String scale = name + ".scale_inv";
        Shape grid = codes.form().blocks().scaleShape();
        Tensor scales = Tensor.ofFloats(arena, scale, grid, codes.scales());
        tensors.put(scale, sample.transposed() && grid.rank() == 2 ? scales.transposed(arena) : scales);
    }

    private static void put(
            Map<String, Tensor> tensors, String name, DType type, MemorySegment bytes, Sample sample, Arena arena) {
        Tensor tensor = new Tensor(new TensorSpec(name, type, sample.values().shape()), bytes);
        tensors.put(name, sample.transposed() ? tensor.transposed(arena) : tensor);
    }
}
