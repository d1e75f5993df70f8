package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Hugging Face folders where ONNX files were the only models with a graph. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QuantizeFolderTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path folder;

    private Path tokens(int count, int length, int vocabulary) throws IOException {
        Path file = folder.resolve("tokens.npz");
        long[] ids = new SplittableRandom(5)
                .longs((long) count * length, 3, vocabulary)
                .toArray();
        long[] mask = new long[count * length];
        Arrays.fill(mask, 1);
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(file)) {
            writer.add(Tensor.ofLongs(arena, "input_ids", Shape.of(count, length), ids));
            writer.add(Tensor.ofLongs(arena, "attention_mask", Shape.of(count, length), mask));
            writer.commit();
        }
        return file;
    }

    private static JsonNode ok(String... words) throws IOException {
        CommandLine ran = CommandLine.run(words);
        assertEquals(ExitCode.OK, ran.code(), ran.err());
        return JSON.readTree(ran.out());
    }

    @ParameterizedTest
    @ValueSource(strings = {"checkpoints/llama-128-small", "models/tiny-hf/gpt2", "models/tiny-hf/qwen2"})
    void a_folder_becomes_an_fp8_onnx_file_that_computes_nearly_the_same(String name) throws IOException {
        String model = TESTDATA.resolve(name).toString();
        String data = tokens(8, 12, 100).toString();
        String out = folder.resolve("fp8.onnx").toString();
        JsonNode made =
                ok("quantize", model, "-o", out, "--target", "onnxruntime", "--calibration", data, "--json", "--quiet");
        JsonNode linear = made.path("layers").get(0);
        assertTrue(linear.path("converted").asInt() > 7, made.toString());
        JsonNode compared = ok("evaluate", model, out, "--data", data, "--no-layers", "--json", "--quiet");
        double cosine = compared.path("comparison")
                .path("outputs")
                .get(0)
                .path("cosine_mean")
                .asDouble();
        assertTrue(cosine > 0.98 && cosine < 1, "FP8 of random weights: " + compared);
    }

    /** Decoders and encoders of further families, as a checkpoint and as an ONNX file: both compute nearly what the original does. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "phi3",
                "olmo2",
                "smollm3",
                "granite",
                "gemma3",
                "cohere",
                "cohere2",
                "llama-yarn",
                "roberta",
                "distilbert",
                "modernbert",
                "deberta",
                "deberta-tokens"
            })
    void every_family_is_quantised_and_evaluated(String name) throws IOException {
        String model = TESTDATA.resolve("models/tiny-hf").resolve(name).toString();
        String data = tokens(8, 12, 37).toString();
        String checkpoint = folder.resolve("fp8").toString();
        ok("quantize", model, "-o", checkpoint, "--recipe", "fp8-dynamic", "--json", "--quiet");
        String onnx = folder.resolve("fp8.onnx").toString();
        ok("quantize", model, "-o", onnx, "--target", "onnxruntime", "--calibration", data, "--json", "--quiet");
        for (String candidate : List.of(checkpoint, onnx)) {
            JsonNode compared = ok("evaluate", model, candidate, "--data", data, "--no-layers", "--json", "--quiet");
            double cosine = compared.path("comparison")
                    .path("outputs")
                    .get(0)
                    .path("cosine_mean")
                    .asDouble();
            assertTrue(cosine > 0.95 && cosine < 1, "FP8 of random weights: " + compared);
        }
    }

    /** Those of {@code octet calibrate DIR} are named by modules, the graph's values are not. */
    @ParameterizedTest
    @ValueSource(strings = {"models/tiny-hf/gpt2", "models/tiny-hf/llama", "models/tiny-hf/qwen2"})
    void statistics_of_the_folder_give_the_file_that_its_samples_give(String name) throws IOException {
        String model = TESTDATA.resolve(name).toString();
        String data = tokens(8, 12, 100).toString();
        String statistics = folder.resolve("stats").toString();
        ok("calibrate", model, "-o", statistics, "--calibration", data, "--json", "--quiet");
        Path once = folder.resolve("once.onnx");
        ok("quantize", model, "-o", once.toString(), "--target", "onnxruntime", "--statistics", statistics, "--json");
        Path direct = folder.resolve("direct.onnx");
        String[] words = {"quantize", model, "-o", direct.toString(), "--target", "onnxruntime", "--calibration", data};
        CommandLine run = CommandLine.run(words);
        assertEquals(ExitCode.OK, run.code(), run.err());
        Map<String, Float> expected = scales(direct);
        Map<String, Float> found = scales(once);
        assertEquals(expected.keySet(), found.keySet());
        // calibrate computes node by node, quantize with ONNX Runtime's fusions: sums in another order
        expected.forEach((value, scale) -> assertEquals(scale, requireNonNull(found.get(value)), 1e-6f * scale, value));
    }

    /** Scales of what Linears read, by value. */
    private static Map<String, Float> scales(Path file) throws IOException {
        try (ModelFile model = ModelFile.open(file)) {
            Graph graph = model.model().graph().orElseThrow().graph();
            Map<String, Float> scales = new TreeMap<>();
            for (Node n : graph.nodes()) {
                if (n.is("QuantizeLinear")) {
                    Tensor scale = requireNonNull(graph.initializers().get(n.input(1)))
                            .tensor()
                            .orElseThrow();
                    scales.put(n.output(0), scale.bytes().get(Tensor.F32_LE, 0));
                }
            }
            assertTrue(scales.size() > 4, scales.toString());
            return scales;
        }
    }

    @Test
    void inspect_shows_the_graph_of_a_folder() throws IOException {
        JsonNode facts = ok("inspect", TESTDATA.resolve("models/tiny-hf/llama").toString(), "--json");
        assertEquals("LlamaForCausalLM", facts.path("architecture").asText());
        assertEquals("graph", facts.path("layers").path("source").asText());
        assertEquals(15, facts.path("layers").path("linear").asInt());
        assertEquals(21, facts.path("parameters").size());
    }

    @Test
    void inspect_says_why_a_folder_has_no_graph_and_shows_the_rest() throws IOException {
        Path source = TESTDATA.resolve("models/tiny-hf/llama");
        Files.copy(source.resolve("model.safetensors"), folder.resolve("model.safetensors"));
        String config = Files.readString(source.resolve("config.json"));
        Files.writeString(
                folder.resolve("config.json"),
                config.replace("\"model_type\": \"llama\"", "\"model_type\": \"mamba\""));
        JsonNode facts = ok("inspect", folder.toString(), "--json");
        assertEquals(
                "there is no graph for model_type 'mamba'; its tensors are those of LlamaForCausalLM, what it computes"
                        + " with them is not known",
                facts.path("without_graph").asText());
        assertEquals(21, facts.path("tensors").path("count").asInt());
    }

    @Test
    void inspect_does_not_dequantise() throws IOException {
        JsonNode facts = ok(
                "inspect",
                TESTDATA.resolve("checkpoints/foreign/ct-fp8-dynamic").toString(),
                "--json");
        assertTrue(facts.path("without_graph").asText().contains("quantised"), facts.toString());
    }
}
