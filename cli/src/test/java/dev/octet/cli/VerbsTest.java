package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The verbs from end to end on a tiny model. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class VerbsTest {
    private static final String MODEL = TinyBert.MODEL.toString();

    @TempDir
    Path folder;

    private String calibration = "";
    private String heldOut = "";

    @BeforeEach
    void make_samples() throws IOException {
        calibration = TinyBert.samples(folder.resolve("calibration.npz"), 24, 1).toString();
        heldOut = TinyBert.samples(folder.resolve("held-out.npz"), 16, 2).toString();
    }

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private static JsonNode json(String... words) throws IOException {
        List<String> all = new ArrayList<>(List.of(words));
        all.addAll(List.of("--json", "--quiet"));
        CommandLine run = CommandLine.run(all.toArray(String[]::new));
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertEquals("", run.err());
        return new ObjectMapper().readTree(run.out());
    }

    private static void assertRefused(ExitCode code, String... words) {
        CommandLine run = CommandLine.run(words);
        assertEquals(code, run.code(), run.err());
        String lastThree = String.join(
                "\n",
                run.err().lines().filter(l -> !l.startsWith("calibrating")).toList());
        OctetTest.assertThreeLines(new CommandLine(run.code(), run.out(), lastThree));
    }

    private JsonNode quantized(String output) throws IOException {
        return json("quantize", MODEL, "-o", output, "--calibration", calibration);
    }

    private List<String> names() throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(f -> f.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void a_model_is_calibrated_quantised_evaluated_and_inspected() throws IOException {
        JsonNode statistics = json("calibrate", MODEL, "-o", at("s"), "--calibration", calibration);
        assertEquals(24, statistics.get("samples").asInt());
        JsonNode quantized =
                json("quantize", MODEL, "-o", at("fp8.onnx"), "--statistics", at("s"), "--report", at("r.html"));
        assertEquals(14, quantized.get("layers").get(0).get("total").asInt());
        assertTrue(quantized.get("converted_bytes").asLong()
                < quantized.get("original_bytes").asLong());
        assertTrue(Files.readString(folder.resolve("r.html")).contains("Error by layer"));
        JsonNode evaluated = json("evaluate", MODEL, at("fp8.onnx"), "--data", heldOut);
        double cosine = evaluated
                .get("comparison")
                .get("outputs")
                .get(0)
                .get("cosine_mean")
                .asDouble();
        assertTrue(cosine > 0.99 && cosine < 1, () -> "cosine " + cosine);
        assertTrue(evaluated.get("layers").size() >= 12);
        JsonNode inspected = json("inspect", at("fp8.onnx"));
        assertEquals(
                "fp8",
                inspected
                        .get("quantization")
                        .get("settings")
                        .get("octet.recipe")
                        .asText());
        assertTrue(inspected.get("quantization").get("float8_tensors").asInt() >= 12);
    }

    @Test
    void a_layer_norm_is_said_to_hand_on_fp8_and_is_found_so_in_the_file() throws IOException {
        JsonNode counts = json("quantize", MODEL, "-o", at("fp8.onnx"), "--calibration", calibration)
                .get("layers");
        JsonNode linear = counts.get(0);
        JsonNode norm = counts.get(1);
        assertEquals(
                "Linear in FP8",
                linear.get("kind").asText() + " " + linear.get("means").asText());
        assertEquals(
                "LayerNorm handing on FP8",
                norm.get("kind").asText() + " " + norm.get("means").asText());
        JsonNode found = json("inspect", at("fp8.onnx")).get("layers");
        assertEquals(linear.get("total").asInt(), found.get("linear").asInt());
        assertEquals(
                linear.get("converted").asInt(), found.get("quantized_linear").asInt());
        assertEquals(norm.get("total").asInt(), found.get("layer_norm").asInt());
        assertEquals(
                norm.get("converted").asInt(),
                found.get("layer_norm_fp8_output").asInt());
        assertTrue(norm.get("converted").asInt() > 0);
        String page = CommandLine.run("inspect", at("fp8.onnx")).out();
        assertTrue(
                page.contains(found.get("linear").asInt() + " Linear ("
                        + found.get("quantized_linear").asInt() + " quantised: Q/DQ around MatMul or Gemm), "
                        + found.get("layer_norm").asInt() + " LayerNorm ("
                        + found.get("layer_norm_fp8_output").asInt() + " handing on FP8)"),
                page);
        JsonNode original = json("inspect", MODEL).get("layers");
        assertEquals(found.get("linear").asInt(), original.get("linear").asInt());
        assertEquals(0, original.get("quantized_linear").asInt());
        String summary = CommandLine.run("quantize", MODEL, "-o", at("dry.onnx"), "--dry-run")
                .out();
        assertTrue(summary.contains(" LayerNorm handing on FP8"), summary);
    }

    @Test
    void calibrating_first_gives_the_same_bytes_as_calibrating_on_the_way() throws IOException {
        json("quantize", MODEL, "-o", at("direct.onnx"), "--calibration", calibration, "--rounding", "nearest");
        json("calibrate", MODEL, "-o", at("s"), "--calibration", calibration);
        JsonNode answer = json("quantize", MODEL, "-o", at("from-file.onnx"), "--statistics", at("s"));
        assertEquals("nearest", answer.get("rounding").asText());
        assertSameBytes("direct.onnx", "from-file.onnx");
    }

    @Test
    void second_moments_from_a_file_round_by_gptq_to_the_same_bytes() throws IOException {
        json("quantize", MODEL, "-o", at("direct.onnx"), "--calibration", calibration);
        JsonNode taken = json("calibrate", MODEL, "-o", at("s"), "--calibration", calibration, "--second-moments");
        assertEquals(at("s.moments"), taken.get("moments").asText());
        assertEquals(
                Files.size(folder.resolve("s.moments")),
                taken.get("moments_bytes").asLong());
        JsonNode answer = json("quantize", MODEL, "-o", at("from-file.onnx"), "--statistics", at("s"));
        assertEquals("gptq", answer.get("rounding").asText());
        assertSameBytes("direct.onnx", "from-file.onnx");
        json("quantize", MODEL, "-o", at("w.onnx"), "--calibration", calibration, "--recipe", "fp8-weight-only");
        json("quantize", MODEL, "-o", at("w2.onnx"), "--statistics", at("s"), "--recipe", "fp8-weight-only");
        assertSameBytes("w.onnx", "w2.onnx");
    }

    @Test
    void second_moments_of_a_hugging_face_folder_do_so_too() throws IOException {
        String model = Path.of(System.getProperty("octet.testdata"))
                .resolve("models/tiny-hf/qwen2")
                .toString();
        String[] target = {"--target", "onnxruntime"};
        json(with(target, "quantize", model, "-o", at("direct.onnx"), "--calibration", calibration));
        json("calibrate", model, "-o", at("s"), "--calibration", calibration, "--second-moments");
        json(with(target, "quantize", model, "-o", at("from-file.onnx"), "--statistics", at("s")));
        assertSameBytes("direct.onnx", "from-file.onnx");
    }

    private static String[] with(String[] more, String... words) {
        return Stream.concat(Arrays.stream(words), Arrays.stream(more)).toArray(String[]::new);
    }

    private void assertSameBytes(String a, String b) throws IOException {
        assertArrayEquals(Files.readAllBytes(folder.resolve(a)), Files.readAllBytes(folder.resolve(b)));
    }

    @Test
    void the_summary_says_how_weights_are_rounded_and_why() throws IOException {
        json("calibrate", MODEL, "-o", at("s"), "--calibration", calibration);
        assertTrue(dryRun("--statistics", at("s")).contains("nearest (gptq needs second moments:"));
        assertTrue(dryRun("--calibration", calibration).contains("gptq (second moments of the samples)"));
        assertTrue(dryRun("--calibration", calibration, "--rounding", "nearest").contains("nearest (as asked)"));
        assertTrue(dryRun("--recipe", "fp8-weight-only")
                .contains("nearest (gptq needs second moments: --calibration FILE)"));
        // a finished calibration is continued by the moments that it lacks
        JsonNode continued = json("calibrate", MODEL, "-o", at("s"), "--calibration", calibration, "--second-moments");
        assertTrue(continued.get("resumed").asBoolean());
        assertTrue(dryRun("--statistics", at("s")).contains("gptq (second moments in " + at("s.moments") + ")"));
        assertRefused(
                ExitCode.USAGE, "calibrate", MODEL, "-o", at("s"), "--calibration", calibration, "--second-moments");
    }

    private String dryRun(String... words) {
        CommandLine run = CommandLine.run(with(words, "quantize", MODEL, "-o", at("dry.onnx"), "--dry-run"));
        assertEquals(ExitCode.OK, run.code(), run.err());
        return run.out();
    }

    @Test
    void second_moments_of_other_samples_than_the_statistics_are_refused() throws IOException {
        json("calibrate", MODEL, "-o", at("a"), "--calibration", calibration, "--samples", "12", "--second-moments");
        json("calibrate", MODEL, "-o", at("b"), "--calibration", calibration, "--samples", "12:12");
        Files.copy(folder.resolve("a.moments"), folder.resolve("b.moments"));
        CommandLine run = CommandLine.run("quantize", MODEL, "-o", at("x.onnx"), "--statistics", at("b"));
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        assertTrue(run.err().contains("the second moments are of other samples than the statistics"), run.err());
        assertFalse(Files.exists(folder.resolve("x.onnx")));
    }

    @Test
    void merged_second_moments_round_by_gptq() throws IOException {
        json("calibrate", MODEL, "-o", at("a"), "--calibration", calibration, "--samples", "12", "--second-moments");
        json("calibrate", MODEL, "-o", at("b"), "--calibration", calibration, "--samples", "12:12", "--second-moments");
        json("calibrate", "--merge", at("a"), at("b"), "-o", at("both"), "--second-moments");
        JsonNode answer = json("quantize", MODEL, "-o", at("merged.onnx"), "--statistics", at("both"));
        assertEquals("gptq", answer.get("rounding").asText());
    }

    @Test
    void second_moments_never_replace_an_input() throws IOException {
        Path model = Files.copy(TinyBert.MODEL, folder.resolve("m.moments"));
        assertRefused(
                ExitCode.USAGE,
                "calibrate",
                model.toString(),
                "-o",
                at("m"),
                "--calibration",
                calibration,
                "--second-moments",
                "--force");
        assertArrayEquals(Files.readAllBytes(TinyBert.MODEL), Files.readAllBytes(model));
    }

    @Test
    void weights_alone_need_no_data() throws IOException {
        JsonNode answer = json("quantize", MODEL, "-o", at("w.onnx"), "--recipe", "fp8-weight-only");
        assertEquals(0, answer.get("samples").asInt());
        assertTrue(answer.get("calibrator").isNull());
    }

    @ParameterizedTest
    @CsvSource({"onnxruntime", "tensorrt"})
    void every_target_can_be_written(String target) throws IOException {
        JsonNode answer = json("quantize", MODEL, "-o", at("t.onnx"), "--calibration", calibration, "--target", target);
        assertEquals(target, answer.get("target").asText());
        assertTrue(Files.size(folder.resolve("t.onnx")) > 0);
    }

    @Test
    void kept_layers_are_listed_with_their_reason() throws IOException {
        JsonNode answer =
                json("quantize", MODEL, "-o", at("k.onnx"), "--calibration", calibration, "--keep", "layer\\.0.*query");
        boolean found = false;
        for (JsonNode kept : answer.get("kept")) {
            found |= kept.get("node").asText().contains("query")
                    && !kept.get("reason").asText().isEmpty();
        }
        assertTrue(found, answer.toString());
    }

    @Test
    void two_halves_merged_are_the_statistics_of_the_whole() throws IOException {
        json("calibrate", MODEL, "-o", at("a"), "--calibration", calibration, "--samples", "12");
        json("calibrate", MODEL, "-o", at("b"), "--calibration", calibration, "--samples", "12:12");
        JsonNode merged = json("calibrate", "--merge", at("a"), at("b"), "-o", at("both"));
        assertEquals(24, merged.get("samples").asInt());
        json("quantize", MODEL, "-o", at("merged.onnx"), "--statistics", at("both"));
        assertTrue(Files.size(folder.resolve("merged.onnx")) > 0);
    }

    @Test
    void a_dry_run_writes_nothing() throws IOException {
        List<String> before = names();
        json("quantize", MODEL, "-o", at("dry.onnx"), "--calibration", calibration, "--dry-run");
        CommandLine run =
                CommandLine.run("calibrate", MODEL, "-o", at("dry"), "--calibration", calibration, "--dry-run");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertEquals(before, names());
    }

    @Test
    void an_output_that_exists_is_refused_before_any_work_and_overwritten_by_force() throws IOException {
        Files.writeString(folder.resolve("there.onnx"), "precious");
        assertRefused(ExitCode.USAGE, "quantize", MODEL, "-o", at("there.onnx"), "--calibration", calibration);
        assertEquals("precious", Files.readString(folder.resolve("there.onnx")));
        json("quantize", MODEL, "-o", at("there.onnx"), "--calibration", calibration, "--force");
        assertTrue(Files.size(folder.resolve("there.onnx")) > 1000);
    }

    @Test
    void the_model_itself_is_never_overwritten() throws IOException {
        Path copy = Files.copy(TinyBert.MODEL, folder.resolve("copy.onnx"));
        assertRefused(
                ExitCode.USAGE,
                "quantize",
                copy.toString(),
                "-o",
                copy.toString(),
                "--calibration",
                calibration,
                "--force");
        assertArrayEquals(Files.readAllBytes(TinyBert.MODEL), Files.readAllBytes(copy));
    }

    @Test
    void a_finished_calibration_is_not_run_again_by_accident() throws IOException {
        json("calibrate", MODEL, "-o", at("s"), "--calibration", calibration);
        assertRefused(ExitCode.USAGE, "calibrate", MODEL, "-o", at("s"), "--calibration", calibration);
        json("calibrate", MODEL, "-o", at("s"), "--calibration", calibration, "--force");
    }

    @Test
    void a_gate_that_is_not_reached_exits_1() throws IOException {
        quantized(at("fp8.onnx"));
        CommandLine passed = CommandLine.run(
                "evaluate", MODEL, at("fp8.onnx"), "--data", heldOut, "--gate", "cosine=0.9", "--no-layers", "--quiet");
        assertEquals(ExitCode.OK, passed.code(), passed.err());
        CommandLine failed = CommandLine.run(
                "evaluate", MODEL, at("fp8.onnx"), "--data", heldOut, "--gate", "cosine=1.5", "--no-layers", "--quiet");
        assertEquals(ExitCode.CHECK_FAILED, failed.code());
        assertTrue(failed.out().contains("FAILED"), failed.out());
    }

    @Test
    void a_model_is_equal_to_itself() throws IOException {
        JsonNode answer = json("evaluate", MODEL, MODEL, "--data", heldOut);
        assertEquals(
                1,
                answer.get("comparison").get("outputs").get(0).get("cosine_min").asDouble(),
                1e-9);
    }

    @Test
    void perplexities_of_folders_are_compared_and_gated() throws IOException {
        Path testdata = Path.of(System.getProperty("octet.testdata"));
        String folderModel = testdata.resolve("checkpoints/llama-128-small").toString();
        String tokens = testdata.resolve("golden/perplexity/tokens.npz").toString();
        assertEquals(
                ExitCode.OK,
                CommandLine.run("quantize", folderModel, "-o", at("llama-fp8")).code());
        JsonNode answer = json("evaluate", folderModel, at("llama-fp8"), "--data", tokens, "--no-layers");
        JsonNode perplexity = answer.get("comparison").get("perplexity");
        double change = perplexity.get("change").asDouble();
        assertEquals(60, perplexity.get("reference").get("tokens").asLong());
        assertTrue(change != 0 && Math.abs(change) < 0.05, perplexity.toString());
        String[] line = {
            "evaluate",
            folderModel,
            at("llama-fp8"),
            "--data",
            tokens,
            "--no-layers",
            "--gate",
            "perplexity-change=0.05"
        };
        assertEquals(ExitCode.OK, CommandLine.run(line).code());
        line[line.length - 1] = "perplexity-change=0.000001";
        CommandLine failed = CommandLine.run(line);
        assertEquals(ExitCode.CHECK_FAILED, failed.code());
        assertTrue(failed.out().contains("wanted at most 1.0E-6: FAILED"), failed.out());
    }

    @Test
    void progress_goes_to_standard_error_only() {
        CommandLine run = CommandLine.run(
                "calibrate", MODEL, "-o", at("s"), "--calibration", calibration, "--progress", "json", "--json");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.err().lines().allMatch(l -> l.startsWith("{")), run.err());
        assertTrue(run.err().contains("\"calibrating\""), run.err());
        assertTrue(run.out().startsWith("{"), run.out());
    }

    @ParameterizedTest
    @CsvSource({
        "--recipe, fp9, fp8",
        "--target, onnxrutime, onnxruntime",
        "--calibrator, absmix, absmax",
        "--calibrator, percentile:200, 99.99",
        "--keep, no-such-layer, no-such-layer",
        "--keep, (, regular expression",
        "--rounding, gtpq, gptq",
        "--threads, 0, range",
        "--samples, many, 256"
    })
    void a_wrong_value_exits_2_and_says_what_would_be_right(String option, String value, String told) {
        CommandLine run =
                CommandLine.run("quantize", MODEL, "-o", at("x.onnx"), "--calibration", calibration, option, value);
        assertEquals(ExitCode.USAGE, run.code(), run.err());
        OctetTest.assertThreeLines(run);
        assertTrue(run.err().contains(told), run.err());
        assertFalse(Files.exists(folder.resolve("x.onnx")));
    }

    @Test
    void a_recipe_with_activations_asks_for_data() {
        assertRefused(ExitCode.USAGE, "quantize", MODEL, "-o", at("x.onnx"));
        assertRefused(ExitCode.USAGE, "calibrate", MODEL, "-o", at("x"));
        assertRefused(ExitCode.USAGE, "evaluate", MODEL, MODEL);
    }

    @Test
    void compensated_rounding_needs_data() {
        assertRefused(
                ExitCode.USAGE,
                "quantize",
                MODEL,
                "-o",
                at("x.onnx"),
                "--recipe",
                "fp8-weight-only",
                "--rounding",
                "gptq");
    }

    @Test
    void data_and_statistics_together_are_refused() throws IOException {
        json("calibrate", MODEL, "-o", at("s"), "--calibration", calibration);
        assertRefused(
                ExitCode.USAGE,
                "quantize",
                MODEL,
                "-o",
                at("x.onnx"),
                "--calibration",
                calibration,
                "--statistics",
                at("s"));
    }

    @Test
    void an_unknown_gate_is_answered_with_the_valid_ones() {
        CommandLine run = CommandLine.run("evaluate", MODEL, MODEL, "--data", heldOut, "--gate", "cosin=0.9");
        assertEquals(ExitCode.USAGE, run.code());
        assertTrue(run.err().contains("did you mean cosine"), run.err());
        assertRefused(ExitCode.USAGE, "evaluate", MODEL, MODEL, "--data", heldOut, "--gate", "cosine=high");
    }

    @Test
    void texts_without_a_tokenizer_are_refused() throws IOException {
        Path texts = Files.writeString(folder.resolve("texts.jsonl"), "{\"text\": \"a\"}\n");
        assertRefused(ExitCode.USAGE, "calibrate", MODEL, "-o", at("s"), "--calibration", texts.toString());
    }

    @Test
    void bad_data_exits_3_and_leaves_nothing() throws IOException {
        Path noZip = Files.writeString(folder.resolve("broken.npz"), "PK but not really", StandardCharsets.UTF_8);
        assertRefused(ExitCode.INPUT, "quantize", MODEL, "-o", at("x.onnx"), "--calibration", noZip.toString());
        assertRefused(
                ExitCode.INPUT,
                "quantize",
                MODEL,
                "-o",
                at("x.onnx"),
                "--calibration",
                calibration,
                "--samples",
                "20:100");
        assertEquals(List.of("broken.npz", "calibration.npz", "held-out.npz"), names());
    }

    @Test
    void a_truncated_model_exits_3_and_leaves_nothing() throws IOException {
        byte[] bytes = Files.readAllBytes(TinyBert.MODEL);
        Path cut = Files.write(folder.resolve("cut.onnx"), Arrays.copyOf(bytes, bytes.length / 2));
        assertRefused(ExitCode.INPUT, "quantize", cut.toString(), "-o", at("x.onnx"), "--calibration", calibration);
        assertFalse(Files.exists(folder.resolve("x.onnx")));
    }

    @Test
    void a_recipe_for_graphs_is_refused_for_tensors_without_one() {
        String tensors = Path.of(System.getProperty("octet.testdata"))
                .resolve("models/tiny-hf/bert/model.safetensors")
                .toString();
        assertRefused(ExitCode.USAGE, "quantize", tensors, "-o", at("x"), "--recipe", "fp8-per-channel");
    }

    @Test
    void an_output_folder_that_is_not_there_exits_4() throws IOException {
        assertRefused(ExitCode.IO, "quantize", MODEL, "-o", at("no/such/folder/x.onnx"), "--recipe", "fp8-weight-only");
        assertEquals(List.of("calibration.npz", "held-out.npz"), names());
    }
}
