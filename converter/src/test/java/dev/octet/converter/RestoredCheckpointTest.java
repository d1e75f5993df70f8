package dev.octet.converter;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.DoubleNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.data.Batch;
import dev.octet.converter.hf.HfImporter;
import dev.octet.converter.runtime.InstrumentedModel;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Oracle: the checkpoints of {@code testdata/models/tiny-hf}, which the exports of {@code tiny-onnx} were made of by torch. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class RestoredCheckpointTest {
    private static final Path CHECKPOINTS = Path.of(System.getProperty("octet.testdata"), "models", "tiny-hf");

    @TempDir
    private Path folder;

    static Stream<String> exports() throws IOException {
        return TinyModels.names().stream();
    }

    @ParameterizedTest
    @MethodSource("exports")
    void an_export_of_torch_becomes_the_tensors_it_was_made_of_to_the_bit(String name) throws IOException {
        try (ModelFile file = TinyModels.open(name);
                RestoredCheckpoint restored = RestoredCheckpoint.of(file, Optional.empty());
                ModelFile original = TinyModels.checkpoint(name)) {
            assertSameTensors(original.model().tensors(), restored.tensors());
        }
    }

    @ParameterizedTest
    @MethodSource("exports")
    void an_export_of_torch_tells_the_configuration_it_was_made_with(String name) throws IOException {
        ObjectNode original = config(TinyModels.architecture(name));
        try (ModelFile file = TinyModels.open(name);
                RestoredCheckpoint restored = RestoredCheckpoint.of(file, Optional.empty())) {
            Map<String, JsonNode> expected = new TreeMap<>();
            Map<String, JsonNode> found = new TreeMap<>();
            ObjectNode config = ModelConfig.parse(restored.config().toString(), name);
            config.properties().forEach(e -> {
                found.put(e.getKey(), number(e.getValue()));
                expected.put(e.getKey(), number(original.path(e.getKey())));
            });
            assertEquals(expected, found);
        }
    }

    /** 1e-12 and 1.0E-12 are one number. */
    private static JsonNode number(JsonNode value) {
        return value.isBigDecimal() ? DoubleNode.valueOf(value.doubleValue()) : value;
    }

    @ParameterizedTest
    @ValueSource(strings = {"bert", "gpt2", "llama", "vit"})
    void a_restored_folder_opens_as_a_model_with_the_logits_of_pytorch(String architecture) throws Exception {
        String name = architecture + "_eager_script17";
        try (ModelFile file = TinyModels.open(name);
                RestoredCheckpoint restored = RestoredCheckpoint.of(file, Optional.empty())) {
            restored.save(folder.resolve("deep/restored"));
        }
        try (ModelSource source = ModelSource.open(folder.resolve("deep/restored"));
                Converter converter = Converter.of(source.model());
                ModelFile golden = TinyModels.golden(name)) {
            float[] logits = golden.model().tensor("out.logits").toFloats();
            float[] computed = logits(converter.standard(21), golden.model());
            assertTrue(TinyModels.relativeError(computed, logits) < 1e-5);
        }
    }

    @Test
    void a_save_that_fails_half_way_leaves_the_folder_that_was_there() throws IOException {
        Path out = folder.resolve("out");
        RestoredCheckpoint orphan;
        try (ModelFile file = TinyModels.open("llama_eager_script17")) {
            orphan = RestoredCheckpoint.of(file, Optional.empty());
            orphan.save(out);
        }
        byte[] tensors = Files.readAllBytes(out.resolve("model.safetensors"));
        byte[] config = Files.readAllBytes(out.resolve("config.json"));
        try (orphan) {
            assertThrows(IllegalStateException.class, () -> orphan.save(out), "its file is closed");
        }
        assertArrayEquals(tensors, Files.readAllBytes(out.resolve("model.safetensors")));
        assertArrayEquals(config, Files.readAllBytes(out.resolve("config.json")));
        try (Stream<Path> all = Files.list(folder)) {
            assertEquals(List.of(out), all.toList(), "nothing half-written is left");
        }
    }

    @ParameterizedTest
    @CsvSource({
        "bert,21",
        "gpt2,21",
        "llama,21",
        "vit,21",
        "gemma,21",
        "llama,23",
        "vit,23",
        "gemma,23",
        "llama-yarn,21",
        "llama-dynamic,21",
        "phi3,21",
        "olmo2,21",
        "smollm3,21",
        "granite,21",
        "roberta,21",
        "xlm-roberta,21",
        "roberta-bare,21",
        "distilbert,21",
        "distilbert-cls,21",
        "modernbert,21",
        "modernbert-cls,21",
        "whisper,21",
        "t5,21",
        "t5-gated,21",
        "t5-encoder,21",
        "clip,21",
        "clip-text,21",
        "clip-vision,21",
        "siglip,21",
        "gemma3,21",
        "cohere,21",
        "cohere2,21",
        "bert-tokens,21",
        "roberta-qa,21",
        "distilbert-tokens,21",
        "modernbert-qa,21",
        "deberta,21",
        "deberta-v3,21",
        "deberta-cls,21",
        "deberta-tokens,21",
        "deberta-qa,21",
        "deberta-bare,21",
        "deberta,23",
        "llama-yarn,23",
        "phi3,23",
        "gemma3,23",
        "cohere,23",
        "gemma2,21",
        "mixtral,21",
        "qwen2-moe,21",
        "qwen3-moe,21",
        "deepseek-v2,21",
        "deepseek-v3,21",
        "gpt-oss,21",
        "llama4,21",
        "switch,21",
        "mixtral,23",
        "gpt-oss,23"
    })
    void what_octet_made_a_graph_of_comes_back_with_every_key_of_its_configuration(String architecture, int opset)
            throws IOException {
        Path onnx = exported(architecture, opset, m -> m);
        try (ModelFile file = ModelFile.open(onnx);
                RestoredCheckpoint restored = RestoredCheckpoint.of(file, Optional.empty());
                ModelFile original =
                        ModelFile.open(CHECKPOINTS.resolve(architecture).resolve("model.safetensors"))) {
            assertEquals(
                    config(architecture), ModelConfig.parse(restored.config().toString(), "restored"));
            assertSameTensors(original.model().tensors(), restored.tensors());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"bert", "gpt2", "llama", "vit", "gemma", "mixtral", "qwen2-moe", "qwen3-moe"})
    void an_export_of_octet_is_recognised_without_what_it_says_of_itself(String architecture) throws IOException {
        Path onnx = exported(architecture, 21, m -> m.withMetadata(Map.of()));
        try (ModelFile file = ModelFile.open(onnx);
                RestoredCheckpoint restored = RestoredCheckpoint.of(file, Optional.empty());
                ModelFile original =
                        ModelFile.open(CHECKPOINTS.resolve(architecture).resolve("model.safetensors"))) {
            assertSameTensors(original.model().tensors(), restored.tensors());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"bert", "llama", "gemma"})
    void weights_of_16_bits_stay_what_they_are(String architecture) throws IOException {
        try (Arena arena = Arena.ofShared();
                ModelFile original =
                        ModelFile.open(CHECKPOINTS.resolve(architecture).resolve("model.safetensors"))) {
            Map<String, Tensor> narrow = new LinkedHashMap<>();
            original.model().tensors().forEach((n, t) -> narrow.put(n, narrow(t, arena)));
            GraphModel graph =
                    HfImporter.of(config(architecture), narrow, architecture).model();
            Path onnx = folder.resolve("narrow.onnx");
            try (Converter converter = Converter.of(Model.of(graph))) {
                ModelFile.save(Model.of(converter.standard(21).withMetadata(Map.of())), onnx);
            }
            try (ModelFile file = ModelFile.open(onnx);
                    RestoredCheckpoint restored = RestoredCheckpoint.of(file, Optional.empty())) {
                assertSameTensors(narrow, restored.tensors());
                assertEquals("bfloat16", restored.config().path("dtype").asText());
            }
        }
    }

    @Test
    void a_given_configuration_is_written_as_it_is() throws IOException {
        ObjectNode given = config("llama").put("max_position_embeddings", 77);
        try (ModelFile file = TinyModels.open("llama_eager_script17");
                RestoredCheckpoint restored = RestoredCheckpoint.of(file, Optional.of(given))) {
            assertEquals(given, restored.config());
            assertEquals(List.of(), restored.unseen());
        }
    }

    @Test
    void what_no_graph_shows_is_named() throws IOException {
        try (ModelFile file = TinyModels.open("llama_eager_script17");
                RestoredCheckpoint restored = RestoredCheckpoint.of(file, Optional.empty())) {
            assertTrue(restored.unseen().contains("max_position_embeddings"));
            assertTrue(restored.unseen().stream().noneMatch(restored.config()::has));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "num_attention_heads,2,heads",
        "num_hidden_layers,1,Linear",
        "num_hidden_layers,3,Gather",
        "vocab_size,99,shape",
        "layer_norm_eps,3,epsilon",
    })
    void a_configuration_of_another_model_is_refused_saying_where_they_differ(String key, int value, String told)
            throws IOException {
        ObjectNode wrong = config("bert").put(key, value);
        try (ModelFile file = TinyModels.open("bert_eager_script17")) {
            OctetException refused =
                    assertThrows(OctetException.class, () -> RestoredCheckpoint.of(file, Optional.of(wrong)));
            assertTrue(refused.what().contains(told), refused.what());
        }
    }

    @Test
    void a_configuration_without_sizes_is_refused() throws IOException {
        ObjectNode wrong = config("bert");
        wrong.remove("hidden_size");
        try (ModelFile file = TinyModels.open("bert_eager_script17")) {
            assertThrows(MalformedModelException.class, () -> RestoredCheckpoint.of(file, Optional.of(wrong)));
        }
    }

    @Test
    void positions_that_turn_otherwise_are_found_by_running_both() throws IOException {
        ObjectNode wrong = config("llama");
        wrong.putObject("rope_parameters").put("rope_type", "default").put("rope_theta", 100.0);
        try (ModelFile file = TinyModels.open("llama_eager_script17")) {
            OctetException refused = assertThrows(
                    UnsupportedModelException.class, () -> RestoredCheckpoint.of(file, Optional.of(wrong)));
            assertTrue(refused.what().contains("computes something else"), refused.what());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"bert", "gpt2", "llama", "vit"})
    void one_more_node_in_the_last_layer_is_refused_by_its_name(String architecture) throws IOException {
        Path onnx = folder.resolve("more.onnx");
        try (ModelFile file = TinyModels.open(architecture + "_eager_script17")) {
            GraphEdit edit = GraphEdit.of(TinyModels.graph(file).graph());
            Node last = edit.nodes().stream()
                    .filter(n -> n.is("Add") && n.name().contains("1/"))
                    .reduce((a, b) -> b)
                    .orElseThrow();
            String moved = edit.freshName("moved");
            edit.replace(
                    last,
                    last.withOutputs(List.of(moved)),
                    Node.of("planted", "Relu", List.of(moved), List.of(last.output())));
            ModelFile.save(Model.of(TinyModels.graph(file).withGraph(edit.build())), onnx);
        }
        try (ModelFile file = ModelFile.open(onnx)) {
            OctetException refused =
                    assertThrows(UnsupportedModelException.class, () -> RestoredCheckpoint.of(file, Optional.empty()));
            assertTrue(refused.what().contains("planted"), refused.what());
            assertTrue(refused.fix().contains("models of type bert, "), refused.fix());
        }
    }

    @Test
    void a_model_that_is_no_transformer_is_refused_with_the_list_of_architectures() throws IOException {
        Path onnx = Path.of(System.getProperty("octet.testdata"), "models", "op-grad", "matmul_3dx2d.onnx");
        try (ModelFile file = ModelFile.open(onnx)) {
            OctetException refused =
                    assertThrows(UnsupportedModelException.class, () -> RestoredCheckpoint.of(file, Optional.empty()));
            assertTrue(refused.fix().contains("llama, llama4_text, mistral"), refused.fix());
        }
    }

    private Path exported(String architecture, int opset, UnaryOperator<GraphModel> change) throws IOException {
        Path onnx = folder.resolve(architecture + opset + ".onnx");
        try (ModelSource source = ModelSource.open(CHECKPOINTS.resolve(architecture));
                Converter converter = Converter.of(source.model())) {
            ModelFile.save(Model.of(change.apply(converter.standard(opset))), onnx);
        }
        return onnx;
    }

    private static ObjectNode config(String architecture) throws IOException {
        return ModelConfig.read(CHECKPOINTS.resolve(architecture)).orElseThrow();
    }

    private static Tensor narrow(Tensor t, Arena arena) {
        Tensor narrow = Tensor.allocate(arena, new TensorSpec(t.name(), DType.BF16, t.shape()));
        for (long i = 0; i < t.shape().elementCount(); i++) {
            int bits = t.bytes().get(Tensor.I32_LE, 4 * i);
            narrow.bytes().set(Tensor.I16_LE, 2 * i, (short) (bits >>> 16)); // cut, not rounded: any BF16 will do
        }
        return narrow;
    }

    static void requireSameBytes(Tensor expected, Tensor found) {
        assertEquals(
                -1,
                MemorySegment.mismatch(
                        expected.bytes(),
                        0,
                        expected.spec().byteSize(),
                        found.bytes(),
                        0,
                        found.spec().byteSize()),
                expected.name());
    }

    private static void assertSameTensors(Map<String, Tensor> expected, Map<String, Tensor> found) {
        assertEquals(specs(expected), specs(found));
        for (Tensor t : expected.values()) {
            Tensor f = Objects.requireNonNull(found.get(t.name()), t.name());
            requireSameBytes(t, f);
        }
    }

    private static Map<String, TensorSpec> specs(Map<String, Tensor> tensors) {
        Map<String, TensorSpec> specs = new HashMap<>();
        tensors.forEach((name, t) -> specs.put(name, t.spec()));
        return specs;
    }

    /** From the golden inputs; token types that the exports had not are zeros, as transformers has it. */
    private static float[] logits(GraphModel model, Model golden) throws IOException {
        Map<String, Tensor> inputs = new LinkedHashMap<>();
        try (Arena arena = Arena.ofShared();
                InstrumentedModel runnable =
                        InstrumentedModel.open(model, List.of("logits"), SessionSettings.defaults())) {
            for (ValueInfo input : model.graph().inputs()) {
                Tensor fed = golden.tensors().get("in." + input.name());
                Tensor t = fed == null ? golden.tensor("in.input_ids") : fed;
                Tensor copy = Tensor.allocate(arena, t.spec().withName(input.name()));
                if (fed != null) {
                    copy.bytes().copyFrom(fed.bytes());
                }
                inputs.put(input.name(), copy);
            }
            try (OnnxRuntimeSession.Outputs outputs = runnable.run(new Batch(0, 2, inputs))) {
                return outputs.read("logits").toFloats();
            }
        }
    }
}
