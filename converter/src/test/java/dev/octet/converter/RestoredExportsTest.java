package dev.octet.converter;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The table of exporters in docs/huggingface.md, cell by cell. Oracle: the checkpoints of {@code testdata/models/tiny-hf}, which {@code testdata/make/onnx_exports.py}
 * had programs export.
 */
@DisplayNameGeneration(ReplaceUnderscores.class)
class RestoredExportsTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models");
    private static final Path DOCUMENT =
            Path.of(System.getProperty("octet.testdata")).resolveSibling("docs").resolve("huggingface.md");
    private static final List<String> EXPORTERS = List.of("script", "dynamo", "hf", "optimum", "cache");
    private static final String SUFFIX = ".onnx.gz";
    /** DeBERTa-v2 with projections of positions of their own, whose weights dynamo multiplies with the embeddings. */
    private static final String FOLDED = "deberta-qa_dynamo";

    private static final String ALONE = "alone";
    private static final String CONFIG = "config";

    @TempDir
    private Path folder;

    static Stream<String> names() throws IOException {
        try (Stream<Path> all = Files.list(MODELS.resolve("tiny-exports"))) {
            return all
                    .map(f -> String.valueOf(f.getFileName()))
                    .filter(f -> f.endsWith(SUFFIX))
                    .map(f -> f.substring(0, f.length() - SUFFIX.length()))
                    .filter(f -> !f.equals(FOLDED))
                    .sorted()
                    .toList()
                    .stream();
        }
    }

    /** Checkpoint and exporter of MODEL_EXPORTER, or of MODEL_EXPORTER_KIND. */
    private static String[] parts(String name) {
        return name.split("_", -1);
    }

    /** Cells of the table by model and exporter. */
    private static Map<String, Map<String, String>> table() throws IOException {
        Map<String, Map<String, String>> table = new LinkedHashMap<>();
        boolean inside = false;
        for (String line : Files.readAllLines(DOCUMENT)) {
            boolean row = line.startsWith("|");
            if (row && inside && !line.startsWith("|---")) {
                String[] cells = line.split("\\|", -1);
                for (String model : cells[1].replace("`", "").strip().split(", ", -1)) {
                    Map<String, String> of = new TreeMap<>();
                    for (int i = 0; i < EXPORTERS.size(); i++) {
                        of.put(EXPORTERS.get(i), cells[i + 2].strip());
                    }
                    table.put(model, of);
                }
            }
            inside = row && (inside || line.startsWith("| exported by"));
        }
        return table;
    }

    private static String modelType(String model) throws IOException {
        return config(model).path("model_type").asText();
    }

    private static ObjectNode config(String model) throws IOException {
        return ModelConfig.read(MODELS.resolve("tiny-hf").resolve(model)).orElseThrow();
    }

    /** The configuration of an export: that of its checkpoint, or what lies beside it. */
    private static ObjectNode configOf(String name) throws IOException {
        Path own = MODELS.resolve("tiny-exports").resolve(name + ".json");
        return Files.exists(own) ? ModelConfig.parse(Files.readString(own), own.toString()) : config(parts(name)[0]);
    }

    private Path unpacked(String name) throws IOException {
        Path onnx = folder.resolve("model.onnx");
        try (InputStream in = new GZIPInputStream(
                Files.newInputStream(MODELS.resolve("tiny-exports").resolve(name + SUFFIX)))) {
            Files.copy(in, onnx);
        }
        return onnx;
    }

    @ParameterizedTest
    @MethodSource("names")
    void an_export_is_restored_as_the_table_says(String name) throws IOException {
        String[] parts = parts(name);
        String cell = requireNonNull(
                requireNonNull(table().get(modelType(parts[0])), parts[0]).get(parts[1]));
        try (ModelFile file = ModelFile.open(unpacked(name));
                ModelFile original = ModelFile.open(
                        MODELS.resolve("tiny-hf").resolve(parts[0]).resolve("model.safetensors"))) {
            if (cell.equals(ALONE)) {
                requireSame(file, original, Optional.empty());
            } else {
                assertThrows(UnsupportedModelException.class, () -> RestoredCheckpoint.of(file, Optional.empty()));
            }
            requireSame(file, original, Optional.of(configOf(name)));
        }
    }

    private static void requireSame(ModelFile file, ModelFile original, Optional<ObjectNode> config)
            throws IOException {
        try (RestoredCheckpoint restored = RestoredCheckpoint.of(file, config)) {
            Map<String, Tensor> expected = original.model().tensors();
            Map<String, Tensor> found = restored.tensors();
            assertEquals(new TreeSet<>(expected.keySet()), new TreeSet<>(found.keySet()));
            for (Tensor t : expected.values()) {
                Tensor f = requireNonNull(found.get(t.name()));
                assertEquals(t.spec(), f.spec());
                boolean folded =
                        restored.modelClass().startsWith("Gemma") && t.name().endsWith("norm.weight");
                if (folded) {
                    requireNear(t, f);
                } else {
                    RestoredCheckpointTest.requireSameBytes(t, f);
                }
            }
        }
    }

    /** 1 + w was rounded by the exporter: half of the last bit of a number below two. */
    private static void requireNear(Tensor expected, Tensor found) {
        float[] a = expected.toFloats();
        float[] b = found.toFloats();
        for (int i = 0; i < a.length; i++) {
            assertTrue(Math.abs(a[i] - b[i]) <= 0x1p-23, expected.name() + " " + a[i] + " " + b[i]);
        }
    }

    @Test
    void images_of_open_size_whose_positions_are_looked_up_need_the_configuration() throws IOException {
        try (ModelFile file = ModelFile.open(unpacked("clip-vision_optimum"))) {
            UnsupportedModelException refused =
                    assertThrows(UnsupportedModelException.class, () -> RestoredCheckpoint.of(file, Optional.empty()));
            assertTrue(refused.what().contains("dimension 1 of pixel_values is 'num_channels'"), refused.what());
            assertTrue(refused.fix().contains("--config"), refused.fix());
            UnsupportedModelException text = assertThrows(
                    UnsupportedModelException.class, () -> RestoredCheckpoint.of(file, Optional.of(config("bert"))));
            assertTrue(text.what().contains("it has images"), text.what());
        }
    }

    @Test
    void a_refusal_names_parameters_that_no_constant_is() throws IOException {
        try (ModelFile file = ModelFile.open(unpacked("clip_dynamo"))) {
            ObjectNode deeper = config("clip");
            ((ObjectNode) deeper.path("text_config")).put("num_hidden_layers", 3);
            UnsupportedModelException refused = assertThrows(
                    UnsupportedModelException.class, () -> RestoredCheckpoint.of(file, Optional.of(deeper)));
            assertTrue(refused.what().contains("text_model.encoder.layers.2.layer_norm1.weight"), refused.what());
            assertTrue(refused.what().contains(" others"), refused.what());
        }
    }

    @Test
    void weights_that_an_exporter_multiplied_with_others_are_named() throws IOException {
        try (ModelFile file = ModelFile.open(unpacked(FOLDED))) {
            UnsupportedModelException refused = assertThrows(
                    UnsupportedModelException.class, () -> RestoredCheckpoint.of(file, Optional.of(configOf(FOLDED))));
            assertTrue(refused.what().contains("attention.self.pos_query_proj.weight"), refused.what());
        }
    }

    @Test
    void a_decoder_whose_encoder_lies_elsewhere_is_refused_by_its_input() throws IOException {
        try (ModelFile file = ModelFile.open(unpacked("llama_cache"));
                ModelFile other = ModelFile.open(edited(file, edit -> {
                    List<ValueInfo> inputs = new ArrayList<>(edit.inputs());
                    inputs.add(inputs.getFirst().withName("encoder_hidden_states"));
                    edit.setInputs(inputs);
                }))) {
            UnsupportedModelException refused =
                    assertThrows(UnsupportedModelException.class, () -> RestoredCheckpoint.of(other, Optional.empty()));
            assertTrue(refused.what().contains("it has inputs encoder_hidden_states, not only"), refused.what());
        }
    }

    @Test
    void a_choice_between_decoders_that_is_no_if_is_refused() throws IOException {
        try (ModelFile file = ModelFile.open(unpacked("gpt2_cache_merged"));
                ModelFile other = ModelFile.open(edited(
                        file,
                        edit -> edit.append(Node.of("not", "Not", List.of("use_cache_branch"), List.of("not")))))) {
            UnsupportedModelException refused =
                    assertThrows(UnsupportedModelException.class, () -> RestoredCheckpoint.of(other, Optional.empty()));
            assertTrue(refused.what().contains("use_cache_branch"), refused.what());
            assertTrue(refused.fix().contains("decoder_model.onnx"), refused.fix());
        }
    }

    /** The file with a second reader of its condition. */
    private Path edited(ModelFile file, Consumer<GraphEdit> change) throws IOException {
        GraphModel model = file.model().graph().orElseThrow();
        GraphEdit edit = GraphEdit.of(model.graph());
        change.accept(edit);
        Path path = folder.resolve("other.onnx");
        OnnxWriter.write(model.withGraph(edit.build()), path);
        return path;
    }

    @Test
    void each_cell_of_the_table_has_an_export() throws IOException {
        List<String> wrong = new ArrayList<>();
        Map<String, Set<String>> exported = new TreeMap<>();
        for (String name : names().toList()) {
            exported.computeIfAbsent(modelType(parts(name)[0]), _ -> new TreeSet<>())
                    .add(parts(name)[1]);
        }
        for (String name : TinyModels.names()) { // those are restored by RestoredCheckpointTest
            exported.computeIfAbsent(TinyModels.architecture(name), _ -> new TreeSet<>())
                    .add(name.replaceFirst(".*_eager_([a-z]+)\\d+", "$1"));
        }
        Map<String, Map<String, String>> table = table();
        assertEquals(exported.keySet(), new TreeSet<>(table.keySet()));
        table.forEach((model, cells) -> cells.forEach((exporter, cell) -> {
            boolean is = requireNonNull(exported.get(model)).contains(exporter);
            if (is == cell.isEmpty() || !List.of("", ALONE, CONFIG).contains(cell)) {
                wrong.add(model + " " + exporter + " " + cell);
            }
        }));
        assertEquals(List.of(), wrong);
    }
}
