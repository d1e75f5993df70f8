package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import dev.octet.formats.ModelFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.Export;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Prove;
import dev.octet.pipeline.Target;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code octet train}, then {@code octet export}, as typed. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ExportCommandTest {
    @TempDir
    static Path runs;

    @TempDir
    Path folder;

    @BeforeAll
    static void train() throws IOException {
        TinyBert.samples(runs.resolve("train.npz"), 24, 1);
        TinyBert.samples(runs.resolve("eval.npz"), 6, 2);
        train("fp32", "{mode: fp32}");
        train("delayed", "{mode: fp8, recipe: delayed, base: fp32, amax_history_len: 4}");
        train("deployed", "{mode: fp8, recipe: deployed, base: fp32, layers: [{match: decoder, fp8: false}]}");
        train("averaged", "{mode: fp8, base: fp32}\naveraging: {ema: {decay: 0.5}, swa: {start: 100}}");
    }

    private static void train(String name, String precision) throws IOException {
        Path config = runs.resolve(name + ".yaml");
        Files.writeString(config, """
            data: {train: train.npz, eval: eval.npz}
            loss: {type: mse, output: logits, distillation: {teacher: '%s'}}
            batch_size: 8
            steps: 3
            optimizer: {lr: 1.0e-3}
            precision: %s
            """.formatted(TinyBert.MODEL, precision));
        CommandLine line = CommandLine.run(
                "train",
                TinyBert.MODEL.toString(),
                "--config",
                config.toString(),
                "-o",
                runs.resolve(name).toString());
        assertEquals(ExitCode.OK, line.code(), line.err());
    }

    private static String run() {
        return runs.resolve("fp32").toString();
    }

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    /** A copy of the run that can be broken. */
    private Path copy() throws IOException {
        Path copy = folder.resolve("copy");
        try (var files = Files.walk(runs.resolve("fp32"))) {
            for (Path file : files.toList()) {
                Files.copy(file, copy.resolve(runs.resolve("fp32").relativize(file)));
            }
        }
        return copy;
    }

    private static JsonNode json(CommandLine line) throws IOException {
        return new ObjectMapper().readTree(line.out());
    }

    private static void assertRefused(ExitCode code, String told, String... words) {
        CommandLine line = CommandLine.run(words);
        assertEquals(code, line.code(), line.err());
        assertTrue(line.err().contains(told), line.err());
    }

    @ParameterizedTest
    @CsvSource({
        "onnx, m.onnx, 1e-4",
        "safetensors, m.safetensors, 1e-4",
        "onnxruntime, m.onnx, 0.1",
        "tensorrt, m.onnx, 0.1",
        "compressed-tensors, m, 0.1",
        "modelopt, m, 0.1"
    })
    void every_target_is_written_and_proves_itself(String target, String name, double expected) throws IOException {
        CommandLine line = CommandLine.run("export", run(), "-o", at(name), "--target", target, "--json");
        assertEquals(ExitCode.OK, line.code(), line.err());
        JsonNode proof = json(line).path("proof");
        assertTrue(proof.path("worst").asDouble() < expected, proof.toString());
        assertEquals(6, proof.path("samples").asInt());
        assertEquals("eval.npz", proof.path("data").asText());
        CommandLine again = CommandLine.run("export", run(), "-o", at(name), "--target", target, "--prove-only");
        assertEquals(ExitCode.OK, again.code(), again.err());
    }

    @Test
    void an_average_of_the_weights_is_exported_in_their_place() throws IOException {
        Path run = runs.resolve("averaged");
        Path out = folder.resolve("m.safetensors");
        CommandLine line = CommandLine.run(
                "export", run.toString(), "-o", out.toString(), "--target", "safetensors", "--weights", "ema");
        assertEquals(ExitCode.OK, line.code(), line.err());
        try (CheckpointFile checkpoint = new CheckpointFolder(run).openNewest();
                ModelFile written = ModelFile.open(out)) {
            String name = checkpoint.state().parameters().keySet().stream()
                    .filter(n -> n.endsWith("word_embeddings.weight")
                            && written.model().tensors().containsKey(n))
                    .findFirst()
                    .orElseThrow();
            Tensor average = checkpoint.state().state().get("ema:" + name);
            float[] exported =
                    requireNonNull(written.model().tensors().get(name)).toFloats();
            assertArrayEquals(requireNonNull(average, name).toFloats(), exported);
            float[] trained =
                    requireNonNull(checkpoint.state().parameters().get(name)).toFloats();
            assertFalse(Arrays.equals(trained, exported));
        }
    }

    @Test
    void an_average_is_quantised_and_proved_as_weights_are() {
        String run = runs.resolve("averaged").toString();
        CommandLine line =
                CommandLine.run("export", run, "-o", at("m.onnx"), "--target", "onnxruntime", "--weights", "ema");
        assertEquals(ExitCode.OK, line.code(), line.err() + line.out());
    }

    @Test
    void an_average_that_the_run_does_not_keep_or_has_not_begun_is_refused() {
        assertRefused(
                ExitCode.USAGE,
                "the run keeps no ema average of its weights",
                "export",
                run(),
                "-o",
                at("m.onnx"),
                "--target",
                "onnx",
                "--weights",
                "ema");
        assertRefused(
                ExitCode.USAGE,
                "the swa average is empty: it begins after step 100, and this checkpoint has 3 updates",
                "export",
                runs.resolve("averaged").toString(),
                "-o",
                at("m.onnx"),
                "--target",
                "onnx",
                "--weights",
                "swa");
    }

    @Test
    void without_a_proof_the_same_file_is_written_and_said_to_be_unproved() throws IOException {
        assertEquals(
                ExitCode.OK,
                CommandLine.run("export", run(), "-o", at("proved.onnx"), "--target", "onnx")
                        .code());
        CommandLine line = CommandLine.run("export", run(), "-o", at("m.onnx"), "--target", "onnx", "--no-proof");
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertTrue(line.out().contains("not proved") && line.out().contains("--prove-only"), line.out());
        assertEquals(-1, Files.mismatch(folder.resolve("proved.onnx"), folder.resolve("m.onnx")));
        CommandLine json = CommandLine.run(
                "export", run(), "-o", at("m.onnx"), "--target", "onnx", "--no-proof", "--json", "--force");
        assertTrue(json(json).path("proof").isNull(), json.out());
    }

    @ParameterizedTest
    @ValueSource(strings = {"--prove-only", "--samples 3", "--gate 1", "--data eval.npz"})
    void what_is_for_the_proof_contradicts_no_proof(String option) {
        List<String> words =
                new ArrayList<>(List.of("export", run(), "-o", at("m.onnx"), "--target", "onnx", "--no-proof"));
        words.addAll(List.of(option.split(" ", -1)));
        assertRefused(ExitCode.USAGE, "contradict each other", words.toArray(String[]::new));
    }

    /** As docs/export.md shows. */
    @Test
    void a_java_program_exports_and_proves_as_the_verb_does() throws IOException {
        Path output = folder.resolve("m.onnx");
        Export.Result exported = Export.run(
                Export.Request.of(runs.resolve("delayed"), output, Target.GRAPHS.getFirst())
                        .withProof(Prove.Options.defaults()),
                Job.defaults().withThreads(2));
        assertTrue(exported.passed());
        assertEquals(3, exported.step());
        assertEquals(14, exported.fp8Layers());
        Path typed = folder.resolve("typed.onnx");
        String run = runs.resolve("delayed").toString();
        CommandLine line = CommandLine.run("export", run, "-o", typed.toString(), "--target", "onnxruntime");
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertEquals(-1, Files.mismatch(output, typed));
    }

    @ParameterizedTest
    @CsvSource({"onnx, m.onnx", "safetensors, m.safetensors"})
    void bf16_is_near_and_half_the_size(String target, String name) throws IOException {
        CommandLine line =
                CommandLine.run("export", run(), "-o", at(name), "--target", target, "--dtype", "bf16", "--json");
        assertEquals(ExitCode.OK, line.code(), line.err());
        double worst = json(line).path("proof").path("worst").asDouble();
        assertTrue(worst > 1e-4 && worst < 0.02, "relative gap " + worst);
    }

    /** Planted: a scale of the exported file is wrong. The proof of the same file fails. */
    @Test
    void a_wrong_scale_in_the_exported_file_fails_the_proof() throws IOException {
        CommandLine line = CommandLine.run("export", run(), "-o", at("m"), "--target", "compressed-tensors");
        assertEquals(ExitCode.OK, line.code(), line.err());
        spoil(folder.resolve("m/model.safetensors"), "m.bert.encoder.layer.1.output.dense.weight_scale");
        CommandLine proof =
                CommandLine.run("export", run(), "-o", at("m"), "--target", "compressed-tensors", "--prove-only");
        assertEquals(ExitCode.CHECK_FAILED, proof.code(), proof.out() + proof.err());
        assertTrue(proof.out().contains("FAILED"), proof.out());
    }

    /** Planted: the list of modules that are not quantised is empty, so readers would look for the scale of the head. */
    @ParameterizedTest
    @CsvSource({"compressed-tensors, decoder", "modelopt, lm_head"})
    void a_module_that_the_configuration_covers_by_mistake_fails_the_proof(String target, String module)
            throws IOException {
        String[] words = {"export", run(), "-o", at("m"), "--target", target};
        assertEquals(ExitCode.OK, CommandLine.run(words).code());
        Path config = folder.resolve("m/config.json");
        ObjectMapper json = new ObjectMapper();
        JsonNode edited = json.readTree(config.toFile());
        ArrayNode names = (ArrayNode) edited.path("quantization_config").path("ignore");
        assertTrue(names.toString().contains(module), edited.toString());
        names.removeAll();
        json.writeValue(config.toFile(), edited);
        CommandLine proof = CommandLine.run("export", run(), "-o", at("m"), "--target", target, "--prove-only");
        assertEquals(ExitCode.CHECK_FAILED, proof.code(), proof.out() + proof.err());
        assertTrue(proof.out().contains(module) && proof.out().contains("FAILED"), proof.out());
    }

    private static void spoil(Path file, String name) throws IOException {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        Path spoilt = file.resolveSibling("spoilt.safetensors");
        try (ModelFile model = ModelFile.open(file);
                Arena arena = Arena.ofConfined()) {
            tensors.putAll(model.model().tensors());
            Tensor old = requireNonNull(tensors.get(name), name);
            float[] scales = old.toFloats();
            for (int i = 0; i < scales.length; i++) {
                scales[i] = 1 / scales[i];
            }
            tensors.put(name, Tensor.ofFloats(arena, name, old.shape(), scales));
            ModelFile.save(Model.of(tensors, model.model().metadata()), spoilt);
        }
        Files.move(spoilt, file, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Trained as it is deployed, the file is the trainer's own arithmetic: no code differs. */
    @Test
    void a_run_of_the_deployed_scheme_is_exported_bit_for_bit_but_for_sums() throws IOException {
        String run = runs.resolve("deployed").toString();
        CommandLine line = CommandLine.run("export", run, "-o", at("m.onnx"), "--target", "onnxruntime", "--json");
        assertEquals(ExitCode.OK, line.code(), line.err());
        JsonNode answer = json(line);
        assertEquals("fp8", answer.path("recipe").asText());
        assertTrue(answer.path("proof").path("worst").asDouble() < 1e-5, answer.toString());
        assertEquals(13, answer.path("fp8_layers").asInt());
        assertEquals(
                "the run computed it in high precision",
                answer.path("kept").path(0).path("reason").asText());
    }

    /** The trainer's state multiplies on the way in, the file's scales on the way out. */
    @Test
    void delayed_scales_of_the_run_are_in_the_file_the_other_way_round() throws IOException {
        Path run = runs.resolve("delayed");
        CommandLine line = CommandLine.run("export", run.toString(), "-o", at("m.onnx"), "--target", "tensorrt");
        assertEquals(ExitCode.OK, line.code(), line.err());
        String module = "m.bert.encoder.layer.1.output.dense";
        try (ModelFile state = ModelFile.open(run.resolve("checkpoints/step-3/state.safetensors"));
                ModelFile file = ModelFile.open(folder.resolve("m.onnx"))) {
            float quantScale = number(state, "fp8." + module + ".weight.weight.quant_scale");
            assertEquals(1 / quantScale, number(file, module + ".weight_scale"));
        }
    }

    private static float number(ModelFile file, String name) {
        return file.model().tensor(name).toFloats()[0];
    }

    @Test
    void transformer_engine_state_has_its_slots_and_directions_and_a_wrong_scale_fails_the_proof() throws IOException {
        String run = runs.resolve("delayed").toString();
        String[] words = {"export", run, "-o", at("m.safetensors"), "--target", "transformer-engine"};
        CommandLine line = CommandLine.run(words);
        assertEquals(ExitCode.OK, line.code(), line.err());
        String state = "m.cls.predictions.transform.dense.fp8.";
        try (ModelFile file = ModelFile.open(folder.resolve("m.safetensors"))) {
            assertEquals(Shape.of(3), file.model().tensor(state + "scale_fwd").shape());
            assertEquals(
                    Shape.of(4, 3),
                    file.model().tensor(state + "amax_history_fwd").shape());
            assertEquals(Shape.of(2), file.model().tensor(state + "scale_bwd").shape());
            assertEquals(
                    Shape.of(4, 2),
                    file.model().tensor(state + "amax_history_bwd").shape());
            float[] scale = file.model().tensor(state + "scale_fwd").toFloats();
            float[] inverse = file.model().tensor(state + "scale_inv_fwd").toFloats();
            float[] history = file.model().tensor(state + "amax_history_fwd").toFloats();
            for (int slot = 0; slot < 2; slot++) {
                assertEquals(1 / scale[slot], inverse[slot]);
                float largest = 0;
                for (int row = 0; row < 4; row++) {
                    largest = Math.max(largest, history[row * 3 + slot]);
                }
                assertEquals(448 / largest, scale[slot], "slot " + slot);
                assertEquals(0, history[slot], "row 0 is pending");
                assertTrue(history[3 * 3 + slot] > 0, "the newest is in the last row");
            }
            assertEquals(1, scale[2], "outputs are never quantised");
        }
        spoil(folder.resolve("m.safetensors"), state + "scale_inv_fwd");
        CommandLine proof = CommandLine.run(
                "export", run, "-o", at("m.safetensors"), "--target", "transformer-engine", "--prove-only");
        assertEquals(ExitCode.CHECK_FAILED, proof.code(), proof.out());
    }

    @Test
    void what_a_delayed_run_exports_passes_verify_with_static_scales() throws IOException {
        String run = runs.resolve("delayed").toString();
        CommandLine line =
                CommandLine.run("export", run, "-o", at("m"), "--target", "compressed-tensors", "--dtype", "bf16");
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertTrue(Files.readString(folder.resolve("m/config.json")).contains("\"dynamic\" : false"));
        CommandLine verify = CommandLine.run("verify", at("m"), "--deep", "--for", "vllm");
        assertEquals(ExitCode.OK, verify.code(), verify.out());
    }

    @Test
    void a_gate_that_is_not_reached_exits_1_and_leaves_the_file() {
        CommandLine line =
                CommandLine.run("export", run(), "-o", at("m.onnx"), "--target", "onnxruntime", "--gate", "1e-9");
        assertEquals(ExitCode.CHECK_FAILED, line.code(), line.err());
        assertTrue(Files.exists(folder.resolve("m.onnx")));
    }

    @Test
    void a_run_without_fp8_has_no_state_for_transformer_engine() {
        assertRefused(
                ExitCode.INPUT,
                "only delayed scaling",
                "export",
                run(),
                "-o",
                at("m.safetensors"),
                "--target",
                "transformer-engine");
        assertFalse(Files.exists(folder.resolve("m.safetensors")));
    }

    @Test
    void a_recipe_with_static_inputs_needs_a_run_that_saw_them() {
        assertRefused(
                ExitCode.INPUT,
                "no static scale",
                "export",
                run(),
                "-o",
                at("m.onnx"),
                "--target",
                "onnxruntime",
                "--recipe",
                "fp8");
    }

    @ParameterizedTest
    @CsvSource({
        "--target, onnxruntim, onnxruntime",
        "--dtype, fp8, fp32",
        "--recipe, nonsense, fp8",
        "--gate, x, number",
        "--step, 0, range"
    })
    void a_wrong_value_exits_2_and_says_what_would_be_right(String option, String value, String told) {
        String target = option.equals("--dtype") ? "onnx" : "onnxruntime";
        List<String> words = new ArrayList<>(List.of("export", run(), "-o", at("m.onnx"), option, value));
        if (!option.equals("--target")) {
            words.addAll(List.of("--target", target));
        }
        assertRefused(ExitCode.USAGE, told, words.toArray(String[]::new));
        assertFalse(Files.exists(folder.resolve("m.onnx")));
    }

    @Test
    void the_name_must_end_as_the_target_is_written() {
        assertRefused(ExitCode.USAGE, ".onnx", "export", run(), "-o", at("m"), "--target", "onnx");
    }

    @Test
    void the_target_must_be_given() {
        assertRefused(ExitCode.USAGE, "--target", "export", run(), "-o", at("m"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"run.json", "config.yaml"})
    void a_folder_that_is_no_run_is_refused(String missing) throws IOException {
        Path copy = copy();
        Files.delete(copy.resolve(missing));
        assertRefused(ExitCode.USAGE, missing, "export", copy.toString(), "-o", at("m.onnx"), "--target", "onnx");
    }

    @Test
    void another_model_than_the_runs_is_refused() throws IOException {
        Path other = TinyBert.MODEL.resolveSibling("bert_eager_dynamo18.onnx");
        assertRefused(
                ExitCode.INPUT,
                "SHA-256",
                "export",
                run(),
                "-o",
                at("m.onnx"),
                "--target",
                "onnx",
                "--model",
                other.toString());
    }

    @Test
    void a_damaged_checkpoint_is_refused_by_name() throws IOException {
        Path copy = copy();
        Files.write(
                copy.resolve("checkpoints/step-3/parameters.safetensors"), new byte[] {1}, StandardOpenOption.APPEND);
        assertRefused(ExitCode.INPUT, "step-3", "export", copy.toString(), "-o", at("m.onnx"), "--target", "onnx");
        assertFalse(Files.exists(folder.resolve("m.onnx")));
    }

    @Test
    void a_run_without_a_checkpoint_is_told_how_to_get_one() throws IOException {
        Path copy = copy();
        Path step = copy.resolve("checkpoints/step-3");
        Files.move(step, copy.resolve("checkpoints/other"));
        assertRefused(
                ExitCode.USAGE,
                "the run has no checkpoint",
                "export",
                copy.toString(),
                "-o",
                at("m.onnx"),
                "--target",
                "onnx");
    }

    @Test
    void a_step_without_a_checkpoint_is_answered_with_those_there_are() {
        assertRefused(ExitCode.USAGE, "[3]", "export", run(), "-o", at("m.onnx"), "--target", "onnx", "--step", "2");
    }

    @Test
    void what_exists_is_not_overwritten() throws IOException {
        Files.writeString(folder.resolve("m.onnx"), "mine");
        assertRefused(ExitCode.USAGE, "exists", "export", run(), "-o", at("m.onnx"), "--target", "onnx");
        assertEquals("mine", Files.readString(folder.resolve("m.onnx")));
    }
}
