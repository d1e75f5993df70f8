package dev.octet.converter;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.UnsupportedModelException;
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
    private static final List<String> EXPORTERS = List.of("script", "dynamo", "hf", "optimum");
    private static final String ALONE = "alone";
    private static final String CONFIG = "config";

    @TempDir
    private Path folder;

    /** Exports by the name of their checkpoint, then by exporter. */
    static Map<String, Map<String, String>> files() throws IOException {
        Map<String, Map<String, String>> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(MODELS.resolve("tiny-exports"))) {
            for (Path file : all.toList()) {
                String name = String.valueOf(file.getFileName());
                String[] parts = name.replace(".onnx.gz", "").split("_", -1);
                // of two exports of a mixture by one exporter either will do: MODEL_script_eager comes behind
                // MODEL_script_batched
                files.computeIfAbsent(parts[0], _ -> new TreeMap<>())
                        .merge(parts[1], name, (a, b) -> a.compareTo(b) < 0 ? a : b);
            }
        }
        return files;
    }

    static Stream<String> names() throws IOException {
        try (Stream<Path> all = Files.list(MODELS.resolve("tiny-exports"))) {
            return all.map(f -> String.valueOf(f.getFileName())).sorted().toList().stream();
        }
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

    @ParameterizedTest
    @MethodSource("names")
    void an_export_is_restored_as_the_table_says(String name) throws IOException {
        String[] parts = name.replace(".onnx.gz", "").split("_", -1);
        String cell = requireNonNull(
                requireNonNull(table().get(modelType(parts[0])), parts[0]).get(parts[1]));
        Path onnx = folder.resolve("model.onnx");
        try (InputStream in = new GZIPInputStream(
                Files.newInputStream(MODELS.resolve("tiny-exports").resolve(name)))) {
            Files.copy(in, onnx);
        }
        try (ModelFile file = ModelFile.open(onnx);
                ModelFile original = ModelFile.open(
                        MODELS.resolve("tiny-hf").resolve(parts[0]).resolve("model.safetensors"))) {
            if (cell.equals(ALONE)) {
                requireSame(file, original, Optional.empty());
            } else {
                assertThrows(UnsupportedModelException.class, () -> RestoredCheckpoint.of(file, Optional.empty()));
            }
            Optional<ObjectNode> given = Optional.of(config(parts[0]));
            if (cell.equals(ALONE) || cell.equals(CONFIG)) {
                requireSame(file, original, given);
            } else {
                assertEquals("no", cell);
                assertThrows(UnsupportedModelException.class, () -> RestoredCheckpoint.of(file, given));
            }
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
    void each_cell_of_the_table_has_an_export() throws IOException {
        List<String> wrong = new ArrayList<>();
        Map<String, Set<String>> exported = new TreeMap<>();
        for (Map.Entry<String, Map<String, String>> e : files().entrySet()) {
            exported.computeIfAbsent(modelType(e.getKey()), _ -> new TreeSet<>())
                    .addAll(e.getValue().keySet());
        }
        for (String name : TinyModels.names()) { // those are restored by RestoredCheckpointTest
            exported.computeIfAbsent(TinyModels.architecture(name), _ -> new TreeSet<>())
                    .add(name.replaceFirst(".*_eager_([a-z]+)\\d+", "$1"));
        }
        Map<String, Map<String, String>> table = table();
        assertEquals(exported.keySet(), new TreeSet<>(table.keySet()));
        table.forEach((model, cells) -> cells.forEach((exporter, cell) -> {
            boolean is = requireNonNull(exported.get(model)).contains(exporter);
            if (is == cell.isEmpty() || !List.of("", ALONE, CONFIG, "no").contains(cell)) {
                wrong.add(model + " " + exporter + " " + cell);
            }
        }));
        assertEquals(List.of(), wrong);
    }
}
