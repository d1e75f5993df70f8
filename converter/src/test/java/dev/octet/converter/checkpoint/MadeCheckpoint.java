package dev.octet.converter.checkpoint;

import static java.util.Objects.requireNonNull;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.CheckpointConverter;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.safetensors.ShardIndex;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.stream.Stream;

/** Checkpoints that tests make, tensor by tensor, and ways to run the engine on them and look at what it wrote. */
final class MadeCheckpoint {
    static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"), "checkpoints");

    private static final ObjectMapper JSON = new ObjectMapper();

    private final Path folder;
    private final Map<String, Map<String, Tensor>> shards = new LinkedHashMap<>();

    private MadeCheckpoint(Path folder) {
        this.folder = folder;
    }

    /** A checkpoint to be made in {@code folder}, with the configuration of a small Llama. */
    static MadeCheckpoint in(Path folder) throws IOException {
        Files.createDirectories(folder);
        Files.writeString(folder.resolve("config.json"), """
            {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
             "hidden_size": 128, "tie_word_embeddings": false, "nested": {"kept": [1, 2.5, null, "x"]}}
            """);
        return new MadeCheckpoint(folder);
    }

    MadeCheckpoint with(String shard, Tensor tensor) {
        shards.computeIfAbsent(shard, _ -> new LinkedHashMap<>()).put(tensor.name(), tensor);
        return this;
    }

    /** Adds BF16 noise of standard deviation {@code spread}. */
    MadeCheckpoint noise(String shard, String name, double spread, long... dims) {
        return with(shard, noise(DType.BF16, name, spread, dims));
    }

    static Tensor noise(DType type, String name, double spread, long... dims) {
        Shape shape = Shape.of(dims);
        long width = type.bits() / 8;
        MemorySegment bytes = Arena.ofAuto().allocate(Math.max(1, shape.elementCount() * width), 64);
        SplittableRandom random = new SplittableRandom(name.hashCode());
        for (long i = 0; i < shape.elementCount(); i++) {
            Floats.set(type, bytes, i, (float) (random.nextGaussian() * spread));
        }
        return new Tensor(new TensorSpec(name, type, shape), bytes.asSlice(0, shape.elementCount() * width));
    }

    /** A tensor of these bytes. */
    static Tensor bytes(DType type, String name, byte[] bytes, long... dims) {
        MemorySegment segment = Arena.ofAuto().allocate(Math.max(1, bytes.length), 64);
        MemorySegment.copy(bytes, 0, segment, ValueLayout.JAVA_BYTE, 0, bytes.length);
        return new Tensor(new TensorSpec(name, type, Shape.of(dims)), segment.asSlice(0, bytes.length));
    }

    static Tensor set(Tensor tensor, long index, float value) {
        Floats.set(tensor.dtype(), tensor.bytes(), index, value);
        return tensor;
    }

    /** Writes the files: with an index where there are several, or where the only one is not {@code model.safetensors}. */
    Path write() throws IOException {
        Map<String, String> weightMap = new LinkedHashMap<>();
        long bytes = 0;
        for (Map.Entry<String, Map<String, Tensor>> shard : shards.entrySet()) {
            SafetensorsWriter.write(folder.resolve(shard.getKey()), shard.getValue(), Map.of("format", "pt"));
            for (Tensor t : shard.getValue().values()) {
                weightMap.put(t.name(), shard.getKey());
                bytes += t.bytes().byteSize();
            }
        }
        if (!shards.keySet().equals(Set.of("model.safetensors"))) {
            new ShardIndex(weightMap, OptionalLong.of(bytes)).write(folder.resolve(ShardIndex.FILE_NAME));
        }
        return folder;
    }

    /** One attention block and one MLP of width 128 in two files, with all that is not a Linear. */
    static MadeCheckpoint small(Path folder) throws IOException {
        String a = "model-00001-of-00002.safetensors";
        String b = "model-00002-of-00002.safetensors";
        String layer = "model.layers.0.";
        return in(folder)
                .noise(a, "model.embed_tokens.weight", 1, 64, 128)
                .noise(a, layer + "self_attn.q_proj.weight", 0.02, 128, 128)
                .noise(a, layer + "self_attn.k_proj.weight", 0.05, 128, 128)
                .noise(b, layer + "self_attn.v_proj.weight", 0.01, 128, 128)
                .noise(b, layer + "self_attn.o_proj.weight", 0.02, 128, 128)
                .noise(a, layer + "mlp.gate_proj.weight", 0.02, 256, 128)
                .noise(b, layer + "mlp.up_proj.weight", 0.03, 256, 128)
                .noise(b, layer + "mlp.down_proj.weight", 0.02, 128, 256)
                .noise(a, layer + "input_layernorm.weight", 1, 128)
                .noise(b, "model.norm.weight", 1, 128)
                .noise(b, "lm_head.weight", 0.02, 64, 128);
    }

    /** A goal for {@code recipe} in the layout called {@code target}. */
    static ConversionRequest.Quantize goal(Recipe recipe, String target) {
        return new ConversionRequest.Quantize(recipe, layout(target), LayoutOptions.defaults());
    }

    static Layout layout(String name) {
        return Layouts.named(name).orElseThrow();
    }

    static ConversionRequest.Convert convert(String target, Optional<Recipe> recipe) {
        return new ConversionRequest.Convert(layout(target), LayoutOptions.defaults(), recipe);
    }

    static StreamOptions threads(int threads) {
        return new StreamOptions(threads, false, ByteProgress.silent());
    }

    /** Plans and runs. */
    static CheckpointResult run(Path source, ConversionRequest goal, Path output) throws IOException {
        return run(source, goal, CheckpointConverter.Request.all(), output, threads(2));
    }

    static CheckpointResult run(
            Path source,
            ConversionRequest goal,
            CheckpointConverter.Request request,
            Path output,
            StreamOptions options)
            throws IOException {
        try (CheckpointConverter converter = CheckpointConverter.open(source)) {
            return converter.run(converter.plan(goal, request, options), output, options);
        }
    }

    static CheckpointPlan plan(Path source, ConversionRequest goal) throws IOException {
        try (CheckpointConverter converter = CheckpointConverter.open(source)) {
            return converter.plan(goal, CheckpointConverter.Request.all(), threads(1));
        }
    }

    /** Every file under {@code folder}, hidden ones too, with the sum of its bytes. */
    static Map<String, String> sums(Path folder) throws IOException {
        Map<String, String> sums = new TreeMap<>();
        if (Files.exists(folder)) {
            try (Stream<Path> files = Files.walk(folder)) {
                for (Path file : files.filter(Files::isRegularFile).toList()) {
                    sums.put(folder.relativize(file).toString(), sum(Files.readAllBytes(file)));
                }
            }
        }
        return sums;
    }

    /** The same for the files of tensors alone. */
    static Map<String, String> tensorSums(Path folder) throws IOException {
        Map<String, String> sums = sums(folder);
        sums.keySet().removeIf(n -> !n.endsWith(".safetensors") || n.contains("/"));
        return sums;
    }

    private static String sum(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    static byte[] raw(Checkpoint checkpoint, String name) throws IOException {
        StoredTensor tensor = requireNonNull(checkpoint.tensor(name), name);
        try (Arena arena = Arena.ofConfined()) {
            return checkpoint.read(tensor, arena).toArray(ValueLayout.JAVA_BYTE);
        }
    }

    /** A small tensor of scales or values as it lies in the file. */
    static float[] floats(Path folder, String name) throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(folder);
                Arena arena = Arena.ofConfined()) {
            StoredTensor tensor = requireNonNull(checkpoint.tensor(name), name);
            MemorySegment bytes = checkpoint.read(tensor, arena);
            float[] values = new float[(int) tensor.shape().elementCount()];
            for (int i = 0; i < values.length; i++) {
                values[i] = Floats.get(tensor.dtype(), bytes, i);
            }
            return values;
        }
    }

    /** All values of a weight, dequantised where it is quantised. */
    static float[] values(CheckpointConverter converter, String name) throws IOException {
        WeightReader reader = WeightReader.of(converter.checkpoint(), converter.stored());
        Blocks blocks = Blocks.ofEachMatrix(reader.shape(name), new Granularity.PerTensor());
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment floats = arena.allocate(Math.max(1, blocks.elements() * Float.BYTES), 64);
            reader.read(name, 0, blocks.allRows(), floats);
            return floats.toArray(ValueLayout.JAVA_FLOAT);
        }
    }

    static ObjectNode json(Path file) throws IOException {
        return (ObjectNode) JSON.readTree(file.toFile());
    }

    static List<String> names(Path folder) throws IOException {
        try (Checkpoint checkpoint = Checkpoint.open(folder)) {
            return List.copyOf(checkpoint.tensors().keySet());
        }
    }
}
