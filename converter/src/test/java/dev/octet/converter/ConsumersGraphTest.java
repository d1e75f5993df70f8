package dev.octet.converter;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.data.Batch;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.graph.Node;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Graphs of quantised checkpoints as consumers with kernels for their codes compute them, against an emulation in PyTorch. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ConsumersGraphTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path FOREIGN = TESTDATA.resolve("checkpoints/foreign");
    private static final Path GOLDEN = TESTDATA.resolve("golden/fp8-activations/logits.safetensors");

    /** Rounding alone moves the logits by a twelfth; a sum in another order sometimes moves one element across a border. */
    private static final double NEAR = 4e-3;

    @TempDir
    Path folder;

    private static float[] golden(String name) throws IOException {
        try (ModelFile file = ModelFile.open(GOLDEN)) {
            return file.model().tensor(name).toFloats();
        }
    }

    private static Batch tokens(Arena arena) throws IOException {
        Shape shape = Shape.of(2, 24);
        long[] ids = new long[48];
        try (ModelFile file = ModelFile.open(GOLDEN)) {
            Tensor stored = file.model().tensor("input_ids");
            for (int i = 0; i < ids.length; i++) {
                ids[i] = stored.bytes().get(Tensor.I64_LE, i * 8L);
            }
        }
        long[] ones = new long[48];
        Arrays.fill(ones, 1);
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        tensors.put("input_ids", Tensor.ofLongs(arena, "input_ids", shape, ids));
        tensors.put(Batch.ATTENTION_MASK, Tensor.ofLongs(arena, Batch.ATTENTION_MASK, shape, ones));
        return new Batch(0, 2, tensors);
    }

    private static float[] logits(Path model, ModelSource.Activations activations) throws IOException {
        try (Arena arena = Arena.ofShared();
                ModelSource source = ModelSource.open(model, activations);
                OnnxRuntimeSession session = source.load(1);
                OnnxRuntimeSession.Outputs outputs = session.run(tokens(arena))) {
            return outputs.read("logits").toFloats();
        }
    }

    /** Length of the difference over length of the wanted. */
    private static double difference(float[] wanted, float[] found) {
        assertEquals(wanted.length, found.length);
        double error = 0;
        double all = 0;
        for (int i = 0; i < wanted.length; i++) {
            error += Math.pow((double) found[i] - wanted[i], 2);
            all += Math.pow(wanted[i], 2);
        }
        return Math.sqrt(error / all);
    }

    @ParameterizedTest
    @ValueSource(strings = {"ct-fp8-static", "ct-fp8-dynamic", "hf-fp8-block", "ct-int8", "ct-nvfp4"})
    void what_linears_read_is_rounded_as_the_checkpoint_says(String name) throws IOException {
        float[] found = logits(FOREIGN.resolve(name), ModelSource.Activations.AS_CONSUMERS);
        double error = difference(golden(name), found);
        assertTrue(error < NEAR, name + " differs by " + error);
        // eight-bit integers of a token are finer than E4M3
        assertTrue(difference(golden(name + ".plain"), found) > (name.equals("ct-int8") ? 5 : 10) * NEAR);
    }

    @ParameterizedTest
    @ValueSource(strings = {"ct-fp8-static", "ct-fp8-dynamic", "hf-fp8-block", "ct-int8", "ct-nvfp4"})
    void a_plain_graph_rounds_no_activations(String name) throws IOException {
        float[] found = logits(FOREIGN.resolve(name), ModelSource.Activations.PLAIN);
        assertEquals(0, difference(golden(name + ".plain"), found), 1e-5);
    }

    /** The static checkpoint of compressed-tensors with scales of attention, by the last part of their names. */
    private Path withAttention(String strategy, Map<String, float[]> scales) throws IOException {
        Path source = FOREIGN.resolve("ct-fp8-static");
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        try (Arena arena = Arena.ofConfined();
                Checkpoint checkpoint = Checkpoint.open(source)) {
            for (StoredTensor t : checkpoint.tensors().values()) {
                tensors.put(t.name(), new Tensor(t.spec(), checkpoint.read(t, arena)));
            }
            scales.forEach((label, values) -> {
                String name = "model.layers.0.self_attn." + label;
                Shape shape = values.length == 1 ? Shape.of(1) : Shape.of(values.length, 1, 1);
                tensors.put(name, Tensor.ofFloats(arena, name, shape, values));
            });
            SafetensorsWriter.write(folder.resolve("model.safetensors"), tensors, Map.of("format", "pt"));
        }
        ObjectMapper json = new ObjectMapper();
        ObjectNode config =
                (ObjectNode) json.readTree(source.resolve("config.json").toFile());
        ObjectNode scheme = ((ObjectNode) config.get("quantization_config")).putObject("kv_cache_scheme");
        scheme.put("num_bits", 8).put("type", "float").put("strategy", strategy).put("dynamic", false);
        Files.writeString(folder.resolve("config.json"), json.writeValueAsString(config));
        return folder;
    }

    @Test
    void keys_and_values_are_rounded_with_the_scales_of_the_cache() throws IOException {
        Path model =
                withAttention("tensor", Map.of("k_scale", new float[] {0.03125f}, "v_scale", new float[] {0.0078125f}));
        float[] found = logits(model, ModelSource.Activations.AS_CONSUMERS);
        double error = difference(golden("ct-fp8-static.cache"), found);
        assertTrue(error < NEAR, "differs by " + error);
        assertTrue(difference(golden("ct-fp8-static"), found) > 10 * NEAR);
    }

    @Test
    void queries_keys_and_values_are_rounded_with_the_scales_of_their_heads() throws IOException {
        Path model = withAttention(
                "attn_head",
                Map.of(
                        "q_scale", new float[] {0.03125f, 0.0078125f, 0.015625f, 0.0625f},
                        "k_scale", new float[] {0.0625f, 0.0234375f},
                        "v_scale", new float[] {0.0078125f, 0.0029296875f}));
        float[] found = logits(model, ModelSource.Activations.AS_CONSUMERS);
        double error = difference(golden("ct-fp8-static.attention"), found);
        assertTrue(error < NEAR, "differs by " + error);
        assertTrue(difference(golden("ct-fp8-static"), found) > 10 * NEAR);
    }

    @Test
    void scales_of_another_number_of_heads_are_noted_and_left() throws IOException {
        Path model = withAttention("attn_head", Map.of("k_scale", new float[] {1, 1, 1}));
        try (ModelSource source = ModelSource.open(model, ModelSource.Activations.AS_CONSUMERS)) {
            String notes = source.huggingFace().orElseThrow().notes().toString();
            assertTrue(notes.contains("there are 3 scales for 2 heads"), notes);
        }
    }

    @Test
    void siblings_that_read_the_same_share_its_rounding() throws IOException {
        try (ModelSource source =
                ModelSource.open(FOREIGN.resolve("ct-fp8-dynamic"), ModelSource.Activations.AS_CONSUMERS)) {
            long casts = requireNonNull(source.model().graph().orElse(null)).graph().nodes().stream()
                    .filter(n -> n.is("Cast") && n.id().contains("_Cast"))
                    .count();
            assertEquals(2 * 4, casts); // to codes and back: attention's input, its output, the MLP's input, its middle
        }
    }

    @ParameterizedTest
    @CsvSource({
        "ct-fp8-static, QuantizeLinear, 4",
        "ct-fp8-weights-only, QuantizeLinear, 0",
        "ct-fp8-weights-only, ReduceMax, 0",
        "hf-fp8-tensor, QuantizeLinear, 0",
        "hf-fp8-tensor, ReduceMax, 4",
        "ct-int8, ReduceMax, 4",
        "ct-int8, Round, 4",
        "ct-mxfp8, ReduceMax, 4"
    })
    void other_layouts_are_rounded_or_left_alone(String name, String type, int count) throws IOException {
        try (ModelSource source = ModelSource.open(FOREIGN.resolve(name), ModelSource.Activations.AS_CONSUMERS)) {
            long found = requireNonNull(source.model().graph().orElse(null)).graph().nodes().stream()
                    .filter((Node n) -> n.is(type))
                    .count();
            assertEquals(count, found);
        }
    }
}
