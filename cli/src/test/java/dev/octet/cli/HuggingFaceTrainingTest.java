package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.ModelFile;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.Floats;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A Hugging Face folder is trained on texts and written back as one. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class HuggingFaceTrainingTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path MODELS = TESTDATA.resolve("models/tiny-lm");

    @TempDir
    Path folder;

    private CommandLine train(Path model, String precision, String... more) throws IOException {
        Path config = folder.resolve("train.yaml");
        Files.write(
                config,
                List.of(
                        "data: {train: '" + TESTDATA.resolve("text/train.jsonl") + "', eval: '"
                                + TESTDATA.resolve("text/eval.jsonl") + "', pack: true, sequence: 32}",
                        "loss: {type: causal-lm}",
                        "batch_size: 2",
                        "steps: 3",
                        "optimizer: {lr: 1.0e-3}",
                        "precision: {mode: " + precision + "}"));
        List<String> words = new ArrayList<>(List.of(
                "train",
                model.toString(),
                "--config",
                config.toString(),
                "-o",
                folder.resolve("run").toString()));
        words.addAll(Arrays.asList(more));
        return CommandLine.run(words.toArray(String[]::new));
    }

    private Path trained(Path model, String precision) throws IOException {
        CommandLine line = train(model, precision);
        assertEquals(ExitCode.OK, line.code(), line.err());
        return folder.resolve("run");
    }

    private CommandLine export(Path out, String target, String... more) {
        List<String> words = new ArrayList<>(List.of(
                "export",
                folder.resolve("run").toString(),
                "-o",
                out.toString(),
                "--target",
                target,
                "--samples",
                "4"));
        words.addAll(Arrays.asList(more));
        return CommandLine.run(words.toArray(String[]::new));
    }

    private Path exported(String target, String... more) {
        Path out = folder.resolve("out");
        CommandLine line = export(out, target, more);
        assertEquals(ExitCode.OK, line.code(), line.err() + line.out());
        assertTrue(line.out().contains("passed"), line.out());
        return out;
    }

    private Path copy(String name) throws IOException {
        Path to = Files.createDirectories(folder.resolve(name));
        try (Stream<Path> files = Files.list(MODELS.resolve(name))) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(String.valueOf(file.getFileName())));
            }
        }
        return to;
    }

    /** Name, number type and shape of every tensor. */
    private static Map<String, String> specs(Path model) throws IOException {
        Map<String, String> specs = new TreeMap<>();
        try (ModelFile file = ModelFile.open(model)) {
            file.model().tensors().forEach((name, t) -> specs.put(name, t.spec().toString()));
        }
        return specs;
    }

    private static Map<String, float[]> values(Path model) throws IOException {
        Map<String, float[]> values = new TreeMap<>();
        try (ModelFile file = ModelFile.open(model)) {
            file.model().tensors().forEach((name, t) -> {
                float[] x = new float[(int) t.shape().elementCount()];
                for (int i = 0; i < x.length; i++) {
                    x[i] = Floats.get(t.dtype(), t.bytes(), i);
                }
                values.put(name, x);
            });
        }
        return values;
    }

    /** To the nearest, ties to even, of the upper half of the bits. */
    private static float bf16(float x) {
        int bits = Float.floatToRawIntBits(x);
        return Float.intBitsToFloat((bits + 0x7FFF + (bits >>> 16 & 1)) & 0xFFFF0000);
    }

    private Map<String, float[]> masters() throws IOException {
        return values(folder.resolve("run/checkpoints/step-3/parameters.safetensors"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "llama"})
    void a_trained_folder_is_written_back_with_the_same_names_types_configuration_and_files(String name)
            throws IOException {
        Path model = MODELS.resolve(name);
        trained(model, "fp32");
        Path out = exported("huggingface");
        assertEquals(specs(model), specs(out));
        for (String file :
                List.of("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")) {
            assertArrayEquals(Files.readAllBytes(model.resolve(file)), Files.readAllBytes(out.resolve(file)), file);
        }
        try (ModelFile file = ModelFile.open(out)) {
            assertEquals("pt", file.model().metadata().get("format"));
        }
        Map<String, float[]> written = values(out);
        Map<String, float[]> before = values(model);
        masters().forEach((parameter, master) -> {
            float[] x = requireNonNull(written.get(parameter), parameter);
            for (int i = 0; i < x.length; i++) {
                assertEquals(bf16(master[i]), x[i], parameter);
            }
            assertFalse(Arrays.equals(x, before.get(parameter)), parameter + " was not trained");
        });
        try (Stream<Path> left = Files.list(folder)) {
            assertTrue(left.noneMatch(f -> f.getFileName().toString().startsWith(".octet")));
        }
    }

    @Test
    void another_number_type_is_written_and_said_in_the_configuration_and_nothing_else_changes_there()
            throws IOException {
        Path model = MODELS.resolve("llama");
        trained(model, "bf16");
        Path out = exported("huggingface", "--dtype", "fp32");
        Map<String, float[]> written = values(out);
        masters().forEach((name, master) -> assertArrayEquals(master, written.get(name), name));
        ObjectMapper json = new ObjectMapper();
        ObjectNode expected =
                (ObjectNode) json.readTree(model.resolve("config.json").toFile());
        expected.put("dtype", "float32");
        assertEquals(expected, json.readTree(out.resolve("config.json").toFile()));
    }

    @ParameterizedTest
    @CsvSource({"compressed-tensors", "modelopt"})
    void quantised_checkpoints_have_the_tokenizer_and_the_scales_of_the_run(String target) throws IOException {
        trained(MODELS.resolve("llama"), "fp8");
        Path out = exported(target);
        assertTrue(Files.exists(out.resolve("tokenizer.json")));
        String type = requireNonNull(specs(out).get("model.layers.0.self_attn.q_proj.weight"));
        assertTrue(type.contains(DType.F8_E4M3FN.name()), type);
        assertTrue(specs(out).containsKey("model.layers.0.self_attn.q_proj.input_scale"));
    }

    @Test
    void a_copy_of_a_tied_weight_in_the_folder_is_left_out_as_it_would_be_the_untrained_one() throws IOException {
        Path model = copy("gpt2");
        Path file = model.resolve("model.safetensors");
        Path doubled = folder.resolve("doubled.safetensors");
        try (ModelFile source = ModelFile.open(file)) {
            Map<String, Tensor> all = new LinkedHashMap<>(source.model().tensors());
            all.put("lm_head.weight", source.model().tensor("transformer.wte.weight"));
            SafetensorsWriter.write(doubled, all, Map.of("format", "pt"));
        }
        Files.delete(file);
        Files.move(doubled, file);
        trained(model, "fp32");
        Path out = folder.resolve("out");
        CommandLine line = export(out, "huggingface");
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertTrue(line.out().contains("left out, as copies of tied weights: lm_head.weight"), line.out());
        assertEquals(specs(MODELS.resolve("gpt2")), specs(out));
    }

    @Test
    void what_is_there_is_overwritten_only_by_force_and_then_wholly() throws IOException {
        trained(MODELS.resolve("gpt2"), "fp32");
        Path out = Files.createDirectories(folder.resolve("out"));
        Files.writeString(out.resolve("model-00001-of-00002.safetensors"), "an earlier model");
        Files.writeString(out.resolve("notes.txt"), "of the user");
        CommandLine refused = export(out, "huggingface");
        assertEquals(ExitCode.USAGE, refused.code(), refused.err());
        exported("huggingface", "--force");
        assertFalse(Files.exists(out.resolve("model-00001-of-00002.safetensors")));
        assertEquals("of the user", Files.readString(out.resolve("notes.txt")));
        assertEquals(specs(MODELS.resolve("gpt2")), specs(out));
    }

    @Test
    void a_folder_whose_configuration_has_changed_since_is_not_the_model_of_the_run() throws IOException {
        Path model = copy("gpt2");
        trained(model, "fp32");
        Path config = model.resolve("config.json");
        Files.writeString(config, Files.readString(config).replace("\"n_head\": 4", "\"n_head\": 8"));
        CommandLine exported = export(folder.resolve("out"), "huggingface");
        assertEquals(ExitCode.INPUT, exported.code(), exported.err());
        assertTrue(exported.err().contains("the run was started with"), exported.err());
        CommandLine resumed = train(model, "fp32", "--resume");
        assertTrue(resumed.err().contains("sha256.model"), resumed.err());
    }

    @Test
    void a_dry_run_on_a_folder_says_what_would_be_trained() throws IOException {
        CommandLine line = train(MODELS.resolve("llama"), "fp8", "--dry-run");
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertTrue(line.out().contains("trained in"), line.out());
        assertFalse(Files.exists(folder.resolve("run")));
    }

    @Test
    void a_run_that_began_with_onnx_cannot_become_a_folder() throws IOException {
        Path config = folder.resolve("train.yaml");
        Files.write(folder.resolve("tokens.bin"), new byte[64]);
        Files.write(
                config,
                List.of(
                        "data: {train: tokens.bin, sequence: 8}",
                        "loss: {type: causal-lm}",
                        "batch_size: 2",
                        "steps: 1"));
        CommandLine line = CommandLine.run(
                "train",
                TESTDATA.resolve("models/tiny-onnx/gpt2_eager_script17.onnx").toString(),
                "--config",
                config.toString(),
                "-o",
                folder.resolve("run").toString());
        assertEquals(ExitCode.OK, line.code(), line.err());
        CommandLine refused = export(folder.resolve("out"), "huggingface");
        assertEquals(ExitCode.INPUT, refused.code(), refused.err());
        assertTrue(refused.err().contains("started from an ONNX file"), refused.err());
    }
}
