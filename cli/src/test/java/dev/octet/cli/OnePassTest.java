package dev.octet.cli;

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
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** One run over the data, from whose file every scheme is solved and foretold. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class OnePassTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    /** Predictions and what was measured may differ by so much, in dB. */
    private static final double TOLERANCE = 2;

    @TempDir
    Path folder;

    private String samples = "";

    @BeforeEach
    void samples() throws IOException {
        samples = TinyBert.samples(folder.resolve("samples.npz"), 24, 1).toString();
    }

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private static CommandLine ok(List<String> words) {
        CommandLine run = CommandLine.run(words.toArray(String[]::new));
        assertEquals(ExitCode.OK, run.code(), run.err());
        return run;
    }

    private static JsonNode json(List<String> words) throws IOException {
        List<String> all = new ArrayList<>(words);
        all.addAll(List.of("--json", "--quiet"));
        return new ObjectMapper().readTree(ok(all).out());
    }

    private void calibrateBert(String... more) {
        List<String> words = new ArrayList<>(List.of(
                "calibrate", TinyBert.MODEL.toString(), "-o", at("model.stats"), "--calibration", samples, "--quiet"));
        words.addAll(List.of(more));
        ok(words);
    }

    private static List<List<String>> schemes() {
        List<List<String>> schemes = new ArrayList<>();
        for (String rounding : List.of("nearest", "gptq")) {
            for (String calibrator : List.of("absmax", "mse", "percentile:99.9", "entropy")) {
                schemes.add(List.of("--recipe", "fp8", "--calibrator", calibrator, "--rounding", rounding));
            }
            schemes.add(List.of("--recipe", "fp8-per-tensor", "--rounding", rounding));
            schemes.add(List.of("--recipe", "fp8-weight-only", "--rounding", rounding));
        }
        return schemes;
    }

    @Test
    void twelve_schemes_from_one_file_are_those_of_their_own_runs_byte_for_byte() throws IOException {
        calibrateBert("--second-moments");
        assertEquals(12, schemes().size());
        List<Path> written = new ArrayList<>();
        for (List<String> scheme : schemes()) {
            written.add(solvedAsDirect(scheme, written));
        }
    }

    @Test
    void smoothed_models_from_one_file_are_those_of_their_own_runs_byte_for_byte() throws IOException {
        calibrateBert("--second-moments");
        List<Path> written = new ArrayList<>();
        for (String alpha : List.of("0.5", "0.75")) {
            for (List<String> recipe : List.of(
                    List.of("int8-dynamic"),
                    List.of("int8", "--calibrator", "absmax"),
                    List.of("fp8", "--calibrator", "absmax"))) {
                for (String rounding : List.of("nearest", "gptq")) {
                    List<String> scheme = new ArrayList<>(List.of("--rounding", rounding, "--recipe"));
                    scheme.addAll(recipe);
                    scheme.addAll(List.of("--transform", "smoothquant:" + alpha));
                    written.add(solvedAsDirect(scheme, written));
                }
            }
        }
        assertEquals(12, written.size());
    }

    @Test
    void folders_are_smoothed_by_the_statistics_of_their_modules() throws IOException {
        String model = TESTDATA.resolve("models/tiny-hf/llama").toString();
        ok(List.of("calibrate", model, "-o", at("folder.stats"), "--calibration", samples, "--quiet"));
        List<String> words = List.of(
                "quantize",
                model,
                "--target",
                "onnxruntime",
                "--recipe",
                "int8-dynamic",
                "--rounding",
                "nearest",
                "--transform",
                "smoothquant",
                "--quiet",
                "-o");
        List<String> solved = new ArrayList<>(words);
        solved.addAll(List.of(at("solved.onnx"), "--statistics", at("folder.stats")));
        ok(solved);
        List<String> direct = new ArrayList<>(words);
        direct.addAll(List.of(at("direct.onnx"), "--calibration", samples));
        ok(direct);
        assertEquals(-1, Files.mismatch(folder.resolve("solved.onnx"), folder.resolve("direct.onnx")));
    }

    @Test
    void statistics_that_smoothing_cannot_go_by_are_refused() throws IOException {
        calibrateBert();
        assertRefused(
                TinyBert.MODEL,
                "int8",
                "statistics tell the least and the greatest number alone",
                "give --calibrator absmax, or --calibration FILE");
        assertRefused(
                TESTDATA.resolve("models/tiny-onnx/bert_eager_dynamo18.onnx"),
                "int8-dynamic",
                "the statistics are of another model",
                "octet calibrate");
    }

    private void assertRefused(Path model, String recipe, String... texts) {
        CommandLine run = CommandLine.run(
                "quantize",
                model.toString(),
                "-o",
                at("x.onnx"),
                "--recipe",
                recipe,
                "--rounding",
                "nearest",
                "--transform",
                "smoothquant",
                "--statistics",
                at("model.stats"));
        assertTrue(run.code() != ExitCode.OK, run.out());
        for (String text : texts) {
            assertTrue(run.err().contains(text), run.err());
        }
        assertFalse(Files.exists(folder.resolve("x.onnx")));
    }

    /** What is written from the statistics, after comparing it with what its own run over the samples writes and with all others. */
    private Path solvedAsDirect(List<String> scheme, List<Path> others) throws IOException {
        List<String> words =
                new ArrayList<>(List.of("quantize", TinyBert.MODEL.toString(), "--quiet", "--force", "-o"));
        List<String> solved = new ArrayList<>(words);
        solved.addAll(List.of(at("solved.onnx"), "--statistics", at("model.stats")));
        solved.addAll(scheme);
        ok(solved);
        List<String> direct = new ArrayList<>(words);
        direct.addAll(List.of(at("direct.onnx"), "--calibration", samples));
        direct.addAll(scheme);
        ok(direct);
        assertEquals(-1, Files.mismatch(folder.resolve("solved.onnx"), folder.resolve("direct.onnx")), scheme + "");
        Path kept = Files.copy(folder.resolve("solved.onnx"), folder.resolve(others.size() + ".kept"));
        for (Path other : others) {
            assertFalse(Files.mismatch(kept, other) < 0, scheme + " is as another scheme");
        }
        return kept;
    }

    @Test
    void the_numbers_are_the_same_on_any_number_of_threads_and_in_pieces() throws IOException {
        calibrateBert("--second-moments", "--threads", "1");
        byte[] statistics = Files.readAllBytes(folder.resolve("model.stats"));
        byte[] moments = Files.readAllBytes(folder.resolve("model.stats.moments"));
        for (List<String> how : List.of(
                List.of("--threads", "2"),
                List.of("--threads", "5"),
                List.of("--memory", "20K"),
                List.of("--memory", "0"))) {
            List<String> more = new ArrayList<>(how);
            more.addAll(List.of("--second-moments", "--force"));
            calibrateBert(more.toArray(String[]::new));
            assertEquals(
                    new String(statistics, StandardCharsets.UTF_8),
                    Files.readString(folder.resolve("model.stats")),
                    how + "");
            assertTrue(Arrays.equals(moments, Files.readAllBytes(folder.resolve("model.stats.moments"))), how + "");
        }
    }

    @Test
    void second_moments_are_added_to_a_file_that_has_none_and_are_those_of_one_run() throws IOException {
        calibrateBert("--second-moments");
        byte[] moments = Files.readAllBytes(folder.resolve("model.stats.moments"));
        Files.delete(folder.resolve("model.stats.moments"));
        byte[] statistics = Files.readAllBytes(folder.resolve("model.stats"));
        calibrateBert("--second-moments");
        assertTrue(Arrays.equals(moments, Files.readAllBytes(folder.resolve("model.stats.moments"))));
        assertTrue(Arrays.equals(statistics, Files.readAllBytes(folder.resolve("model.stats"))));
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(3, files.count(), "samples, statistics, moments");
        }
    }

    @Test
    void what_a_file_lacks_is_named_with_the_command_that_makes_it() throws IOException {
        calibrateBert();
        String command = "octet calibrate " + TinyBert.MODEL + " -o " + at("model.stats")
                + " --data TEXTS.jsonl --second-moments";
        CommandLine gptq = CommandLine.run(
                "quantize",
                TinyBert.MODEL.toString(),
                "-o",
                at("q.onnx"),
                "--statistics",
                at("model.stats"),
                "--rounding",
                "gptq");
        assertEquals(ExitCode.USAGE, gptq.code());
        assertTrue(gptq.err().contains("model.stats.moments") && gptq.err().contains(command), gptq.err());
        CommandLine compare = CommandLine.run(
                "quantize",
                TinyBert.MODEL.toString(),
                "-o",
                at("q.onnx"),
                "--statistics",
                at("model.stats"),
                "--dry-run",
                "--compare");
        assertEquals(ExitCode.INPUT, compare.code());
        assertTrue(
                compare.err().contains("model.stats.moments") && compare.err().contains(command), compare.err());
        CommandLine wet = CommandLine.run("quantize", TinyBert.MODEL.toString(), "-o", at("q.onnx"), "--compare");
        assertEquals(ExitCode.USAGE, wet.code());
        assertFalse(Files.exists(folder.resolve("q.onnx")));
    }

    @Test
    void predictions_are_near_what_samples_give_and_rank_schemes_alike() throws IOException {
        calibrateBert("--second-moments");
        List<double[]> ranks = new ArrayList<>();
        for (List<String> scheme : schemes()) {
            List<String> words = new ArrayList<>(List.of(
                    "quantize",
                    TinyBert.MODEL.toString(),
                    "-o",
                    at("q.onnx"),
                    "--force",
                    "--calibration",
                    samples,
                    "--report",
                    at("r.html")));
            words.addAll(scheme);
            JsonNode predicted = json(words).path("predicted");
            assertTrue(predicted.path("layers").size() > 8, predicted.toString());
            double truth = 0;
            for (JsonNode layer : predicted.path("layers")) {
                double foretold = layer.path("predicted_db").asDouble();
                double measured = layer.path("measured_db").asDouble();
                assertEquals(measured, foretold, TOLERANCE, scheme + " " + layer);
                truth += Math.pow(10, -measured / 10);
            }
            ranks.add(new double[] {
                predicted.path("sqnr_db").asDouble(),
                -10 * Math.log10(truth / predicted.path("layers").size())
            });
            assertTrue(Files.readString(folder.resolve("r.html")).contains("predictedDb"), "the report has them");
        }
        // schemes that differ by less than the error of a prediction may change places
        ranks.sort(Comparator.comparingDouble(r -> r[0]));
        for (int i = 0; i < ranks.size(); i++) {
            for (int j = i + 1; j < ranks.size(); j++) {
                if (ranks.get(j)[0] - ranks.get(i)[0] > 0.5) {
                    assertTrue(ranks.get(j)[1] > ranks.get(i)[1], "ranks of " + i + " and " + j);
                }
            }
        }
    }

    @Test
    void every_scheme_of_a_checkpoint_is_compared_and_a_dry_run_has_the_same_prediction() throws IOException {
        Path model = Files.createDirectory(folder.resolve("llama"));
        for (String file : List.of("config.json", "model.safetensors")) {
            Files.copy(TESTDATA.resolve("models/tiny-hf/llama").resolve(file), model.resolve(file));
        }
        Files.copy(TESTDATA.resolve("tokenizer/words.json"), model.resolve("tokenizer.json"));
        Path texts = Files.writeString(
                folder.resolve("texts.jsonl"),
                "{\"text\": \"the cat sat on the mat\"}\n{\"text\": \"a dog ran far\"}\n".repeat(8));
        ok(List.of(
                "calibrate",
                model.toString(),
                "-o",
                at("llama.stats"),
                "--data",
                texts.toString(),
                "--second-moments",
                "--quiet"));
        List<String> dry =
                List.of("quantize", model.toString(), "-o", at("none"), "--statistics", at("llama.stats"), "--dry-run");
        List<String> all = new ArrayList<>(dry);
        all.add("--compare");
        JsonNode compared = json(all);
        List<String> recipes = new ArrayList<>();
        compared.path("schemes").forEach(s -> recipes.add(s.path("recipe").asText()));
        for (String recipe : List.of("fp8-dynamic", "fp8-block", "mxfp8", "nvfp4", "int8", "fp8-weight-only")) {
            assertTrue(recipes.contains(recipe), recipes + "");
        }
        List<String> possible = new ArrayList<>();
        double last = Double.POSITIVE_INFINITY;
        for (JsonNode scheme : compared.path("schemes")) {
            if (scheme.path("layers").isEmpty()) {
                assertTrue(scheme.path("refused").asInt() > 0, scheme + "");
                continue;
            }
            possible.add(scheme.path("recipe").asText());
            double sqnr = scheme.path("sqnr_db").asDouble();
            assertTrue(sqnr <= last, "the best is first");
            last = sqnr;
        }
        assertEquals("nvfp4", possible.getLast());
        for (String rounding : List.of("nearest", "gptq")) {
            List<String> one = new ArrayList<>(dry);
            one.addAll(List.of("--recipe", "mxfp8", "--rounding", rounding));
            List<Double> rows = new ArrayList<>();
            for (JsonNode s : compared.path("schemes")) {
                if (s.path("recipe").asText().equals("mxfp8")
                        && s.path("rounding").asText().equals(rounding)) {
                    rows.add(s.path("sqnr_db").asDouble());
                }
            }
            JsonNode predicted = json(one).path("predicted");
            assertEquals(List.of(predicted.path("sqnr_db").asDouble()), rows, rounding);
            assertTrue(ok(one).out().contains("SQNR of Linears' outputs, predicted"));
        }
        assertTrue(ok(all).out().contains("nothing was written"));
        assertFalse(Files.exists(folder.resolve("none")));
    }
}
