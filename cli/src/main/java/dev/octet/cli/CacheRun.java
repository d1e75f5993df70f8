package dev.octet.cli;

import dev.octet.formats.file.TemporaryFolder;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Stream;

/**
 * What the launcher runs while the JVM fills its ahead-of-time cache: the verbs that stream checkpoints, for real, on a small one. The
 * cache then holds the classes they load, linked, and which methods are hot, so that those are compiled at once in later runs.
 */
public final class CacheRun {
    private static final int HIDDEN = 1024;
    private static final int INNER = 4096;
    private static final int WORDS = 256;
    private static final long SEED = 15;
    private static final String CONFIG = """
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096,
         "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 1, "vocab_size": 256, "torch_dtype": "bfloat16",
         "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "max_position_embeddings": 512,
         "tie_word_embeddings": false}
        """;

    private CacheRun() {}

    /** Entry point; prints nothing. Exits with 0 when all verbs did their work, else with 1. */
    public static void main(String[] args) throws IOException {
        try (PrintStream nowhere = new PrintStream(OutputStream.nullOutputStream(), false, StandardCharsets.UTF_8)) {
            System.exit(run(new Screen(nowhere, nowhere, false, 0)) ? 0 : 1);
        }
    }

    /** Whether every verb ended well. */
    static boolean run(Screen screen) throws IOException {
        try (TemporaryFolder folder = TemporaryFolder.create("octet-cache")) {
            Path model = Files.createDirectory(folder.path().resolve("model"));
            write(model);
            String source = model.toString();
            String codes = folder.path().resolve("codes").toString();
            String blocks = folder.path().resolve("blocks").toString();
            String floats = folder.path().resolve("floats").toString();
            List<String> quantize = List.of(
                    "quantize", source, "--recipe", "fp8-dynamic", "--target", "compressed-tensors", "-o", codes);
            List<List<String>> commands = List.of(
                    List.of("--help"),
                    List.of("inspect", source),
                    Stream.concat(quantize.stream(), Stream.of("--dry-run")).toList(),
                    quantize,
                    List.of("quantize", source, "--recipe", "fp8-block", "--target", "fp8", "-o", blocks),
                    List.of("verify", codes, "--for", "vllm"),
                    List.of("dequantize", blocks, "--dtype", "bf16", "-o", floats));
            for (List<String> command : commands) {
                if (Octet.run(command, screen) != ExitCode.OK) {
                    return false;
                }
            }
            return true;
        }
    }

    private static void write(Path model) throws IOException {
        Files.writeString(model.resolve("config.json"), CONFIG);
        SplittableRandom random = new SplittableRandom(SEED);
        try (Arena arena = Arena.ofConfined()) {
            Map<String, Tensor> tensors = new LinkedHashMap<>();
            String layer = "model.layers.0.";
            for (String name : List.of("q", "k", "v", "o")) {
                put(tensors, layer + "self_attn." + name + "_proj.weight", Shape.of(HIDDEN, HIDDEN), random, arena);
            }
            put(tensors, layer + "mlp.gate_proj.weight", Shape.of(INNER, HIDDEN), random, arena);
            put(tensors, layer + "mlp.up_proj.weight", Shape.of(INNER, HIDDEN), random, arena);
            put(tensors, layer + "mlp.down_proj.weight", Shape.of(HIDDEN, INNER), random, arena);
            put(tensors, layer + "input_layernorm.weight", Shape.of(HIDDEN), random, arena);
            put(tensors, layer + "post_attention_layernorm.weight", Shape.of(HIDDEN), random, arena);
            put(tensors, "model.norm.weight", Shape.of(HIDDEN), random, arena);
            put(tensors, "model.embed_tokens.weight", Shape.of(WORDS, HIDDEN), random, arena);
            put(tensors, "lm_head.weight", Shape.of(WORDS, HIDDEN), random, arena);
            SafetensorsWriter.write(model.resolve("model.safetensors"), tensors, Map.of("format", "pt"));
        }
    }

    /** Random BF16 between 2^-7 and 2, of either sign. */
    private static void put(
            Map<String, Tensor> tensors, String name, Shape shape, SplittableRandom random, Arena arena) {
        TensorSpec spec = new TensorSpec(name, DType.BF16, shape);
        MemorySegment bytes = arena.allocate(spec.byteSize(), 64);
        for (long at = 0; at < bytes.byteSize(); at += Short.BYTES) {
            bytes.set(Tensor.I16_LE, at, (short) ((random.nextInt() & 0x83FF) | 0x3C00));
        }
        tensors.put(name, new Tensor(spec, bytes));
    }
}
