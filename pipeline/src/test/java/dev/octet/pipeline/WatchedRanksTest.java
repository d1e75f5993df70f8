package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.trainer.collective.RankThreads;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Tiny models of exporters whose products and tensors are watched on ranks, beside the run of one process. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class WatchedRanksTest {
    private static final Path MODELS =
            Path.of(System.getProperty("octet.testdata")).resolve("models");
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final String STATISTICS = "debug: {all: {enabled: true, layers: {layer_types: [all]},"
            + " transformer_engine: {LogTensorStats: {enabled: true, tensors: [activation, gradient, weight, output,"
            + " wgrad, dgrad], stats: [min, max, mean, std, l1_norm, l2_norm, cur_amax]}}}}\n";

    @TempDir
    Path folder;

    private Train.Request request(String model, String run, String more) throws IOException {
        String text = TinyData.lines(model, folder) + "batch_size: 2\nsteps: 4\ngradient_accumulation: 4\n"
                + "optimizer: {type: adamw, lr: 1.0e-3}\n" + more;
        Path config = folder.resolve(run + ".yaml");
        Files.writeString(config, text);
        return Train.Request.of(MODELS.resolve(model), config, folder.resolve(run));
    }

    private static void ranks(int ranks, Train.Request request) {
        RankThreads.run(
                ranks,
                DEADLINE,
                world -> Train.run(request, _ -> List.of(), Job.defaults().withThreads(1), world));
    }

    private String written(String run, String file) throws IOException {
        return Files.readString(folder.resolve(run).resolve(file));
    }

    /** With limits that most products exceed at once, so that programs are built anew while ranks share out what they read. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "tiny-onnx/llama_eager_dynamo18.onnx | 2 | 1 | zero: 3 | recipe: delayed",
                "tiny-onnx/llama_eager_dynamo18.onnx | 1 | 2 | pipeline: 2, chunks: 2 | recipe: delayed",
                "tiny-onnx/llama_eager_dynamo18.onnx | 2 | 2 | pipeline: 2, zero: 1 | recipe: current",
                "tiny-hf/gpt2 | 4 | 1 | zero: 3 | recipe: mxfp8"
            })
    void what_is_found_and_decided_is_what_one_process_finds_and_decides(
            String model, int data, int stages, String distributed, String recipe) throws IOException {
        String watched = STATISTICS + "guard: {every: 1, warm_up: 1, quiet: 1, cast_error: {demote: 0.04, promote:"
                + " 0.039}}\nprecision: {mode: fp8, " + recipe;
        String played = data == 1 ? "}\n" : ", ranks: " + data + ", gradient_reduction: f32}\n";
        Train.run(request(model, "one", watched + played), Job.defaults().withThreads(1));
        ranks(data * stages, request(model, "ranks", watched + "}\ndistributed: {" + distributed + "}\n"));
        String decisions = written("one", "guard.jsonl");
        assertTrue(decisions.contains("demoted") && decisions.contains("promoted"), decisions);
        assertEquals(decisions, written("ranks", "guard.jsonl"));
        assertEquals(written("one", "debug.jsonl"), written("ranks", "debug.jsonl"));
    }

    private Map<String, Double> statistics(String run) throws IOException {
        Map<String, Double> values = new TreeMap<>();
        for (String line : written(run, "debug.jsonl").lines().toList()) {
            JsonNode of = new ObjectMapper().readTree(line);
            for (Map.Entry<String, JsonNode> s : of.path("stats").properties()) {
                List<String> name = new ArrayList<>();
                for (String key : List.of("step", "layer", "tensor")) {
                    name.add(of.path(key).asText());
                }
                name.add(s.getKey());
                values.put(String.join(" ", name), s.getValue().asDouble());
            }
        }
        return values;
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "tiny-onnx/llama_eager_dynamo18.onnx | 2 | tensor: 2, sequence_parallel: true",
                "tiny-onnx/gpt2_eager_dynamo18.onnx | 4 | tensor: 2, pipeline: 2",
                "tiny-hf/gpt2 | 4 | tensor: 2, data: 2, zero: 2"
            })
    void statistics_of_layers_that_ranks_share_are_those_of_whole_tensors(String model, int ranks, String distributed)
            throws IOException {
        String text = STATISTICS + "precision: {mode: fp32";
        String played = distributed.contains("data: 2") ? ", ranks: 2, gradient_reduction: f32}\n" : "}\n";
        Train.run(request(model, "one", text + played), Job.defaults().withThreads(1));
        ranks(ranks, request(model, "ranks", text + "}\ndistributed: {" + distributed + "}\n"));
        Map<String, Double> expected = statistics("one");
        Map<String, Double> got = statistics("ranks");
        assertEquals(expected.keySet(), got.keySet());
        // rounding of F32 sums, through two layers and four updates, of values of up to 4
        expected.forEach((name, value) ->
                assertEquals(value, Objects.requireNonNull(got.get(name), name), 2e-5 * (1 + Math.abs(value)), name));
    }
}
