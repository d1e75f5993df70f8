package dev.octet.trainer;

import static dev.octet.trainer.RankRuns.DEADLINE;
import static dev.octet.trainer.RankRuns.assertSame;
import static dev.octet.trainer.RankRuns.contents;
import static dev.octet.trainer.RankRuns.run;
import static dev.octet.trainer.RankRuns.threads;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Runs of ranks with {@code debug:}, beside the run of one process that computes all micro-batches. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DebugRanksRunTest {
    private static final long STEPS = 3;
    private static final String ALL = "[activation, gradient, weight, output, wgrad, dgrad]";
    private static final String STATS = "LogTensorStats: {enabled: true, tensors: " + ALL
            + ", stats: [min, max, mean, std, l1_norm, l2_norm, cur_amax, dynamic_range, {max_blockwise_dynamic_range:"
            + " {block_size: 8, dims: 1}}]}";
    private static final String CASTS = ", LogFp8TensorStats: {enabled: true, tensors: [activation, gradient, weight],"
        + " stats: [fp8_current_scaling_mse, \"fp8_current_scaling_underflows%\", fp8_current_scaling_scale_inv_max]},"
        + " LogNvfp4TensorStats: {enabled: true, tensors: [activation], stats: [mse]}";
    private static final String DUMPS = ", DumpTensors: {enabled: true, tensors: [weight, output],"
            + " high_precision_tensor: true, quantized_tensor: false}";

    @TempDir
    Path folder;

    private static TrainingParts parts(
            int data, int accumulation, String distributed, String precision, String... lines) {
        List<String> all = new ArrayList<>(List.of(
                "steps: " + STEPS,
                "schedule: {type: constant}",
                "gradient_accumulation: " + accumulation,
                "distributed: {" + distributed + "}",
                "precision: {" + precision + (data == 1 ? "" : ", ranks: " + data)
                        + (data == 1 || precision.contains("reduction") ? "}" : ", gradient_reduction: f32}")));
        all.addAll(List.of(lines));
        return SmallRun.parts(SmallRun.with(all.toArray(String[]::new)));
    }

    private static String debug(String features) {
        return "debug: {all: {enabled: true, layers: {layer_types: [all]}, transformer_engine: {" + features + "}}}";
    }

    /** Six of each layer; only with a scale that is learned the first layer's input has a gradient. */
    private static int tensors(String precision) {
        return precision.startsWith("mode: qat") ? 12 : 11;
    }

    private static String observed(Path run) throws IOException {
        return Files.readString(run.resolve("debug.jsonl"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 2 | zero: 0 | mode: fp32",
                "2 | 4 | zero: 0 | mode: fp8, amax_history_len: 4",
                "2 | 4 | zero: 1 | mode: bf16",
                "2 | 2 | zero: 2 | mode: fp8, recipe: current",
                "2 | 4 | zero: 2 | mode: fp32",
                "2 | 2 | zero: 3 | mode: fp8, amax_history_len: 4",
                "4 | 8 | zero: 3, bucket_size: 100 | mode: fp8, recipe: mxfp8",
                "2 | 4 | zero: 3 | mode: bf16",
                "2 | 2 | zero: 1 | mode: msamp, gradient_reduction: legacy",
                "2 | 4 | zero: 3 | mode: qat, weights: {format: int4}, inputs: {format: int8}",
                "1 | 4 | pipeline: 2 | mode: fp8, amax_history_len: 4",
                "2 | 4 | pipeline: 2, zero: 1 | mode: fp32"
            })
    void statistics_are_those_of_one_process_and_looking_changes_no_bit(
            int data, int accumulation, String distributed, String precision) throws IOException {
        Path whole = folder.resolve("whole");
        run(
                parts(data, accumulation, "", precision, debug(STATS + CASTS)),
                whole,
                Collectives.alone(),
                RunOptions.defaults());
        int ranks = data * (distributed.contains("pipeline") ? 2 : 1);
        Path watched = folder.resolve("watched");
        threads(
                ranks,
                parts(data, accumulation, distributed, precision, debug(STATS + CASTS)),
                watched,
                RunOptions.defaults());
        assertEquals(STEPS * tensors(precision), observed(whole).lines().count());
        assertEquals(observed(whole), observed(watched));
        Path bare = folder.resolve("bare");
        threads(ranks, parts(data, accumulation, distributed, precision), bare, RunOptions.defaults());
        Map<String, byte[]> expected = contents(bare, STEPS);
        contents(watched, STEPS).forEach((name, bytes) -> assertArrayEquals(expected.get(name), bytes, name));
    }

    @Tag("kernels")
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 4 | zero: 0 | mode: fp32",
                "2 | 4 | zero: 2 | mode: fp32",
                "2 | 4 | zero: 3 | mode: fp8, amax_history_len: 4",
                "2 | 4 | zero: 0 | mode: fp8, recipe: mxfp8",
                "2 | 4 | zero: 3 | mode: qat, weights: {format: int4}, inputs: {format: int8}",
                "1 | 4 | pipeline: 2 | mode: bf16",
                "2 | 4 | pipeline: 2, zero: 1 | mode: fp32"
            })
    void of_GPUs_statistics_are_those_of_the_GPU_that_plays_all_ranks(
            int data, int accumulation, String distributed, String precision) throws IOException {
        Path whole = folder.resolve("whole");
        run(
                parts(data, accumulation, "", precision, debug(STATS + CASTS)),
                TestGpus.ownDevice(),
                whole,
                Collectives.alone(),
                RunOptions.defaults());
        Path ranks = folder.resolve("ranks");
        TrainingParts parts = parts(data, accumulation, distributed, precision, debug(STATS + CASTS));
        RankThreads.run(
                data * (distributed.contains("pipeline") ? 2 : 1),
                DEADLINE,
                world -> run(parts, TestGpus.ownDevice(), ranks, world, RunOptions.defaults()));
        assertEquals(STEPS * tensors(precision), observed(whole).lines().count());
        assertEquals(observed(whole), observed(ranks));
        assertSame(whole, ranks, STEPS);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | zero: 3 | mode: fp8, amax_history_len: 4 | PerTensorScaling: {enabled: true, gemms: [fprop],"
                        + " tensors: [activation]}, DisableQuantizationGEMM: {enabled: true, gemms: [dgrad]}",
                "2 | pipeline: 2, zero: 1 | mode: bf16 | FakeQuant: {enabled: true, gemms: [fprop, wgrad], tensors:"
                        + " [activation, gradient], quant_format: FP8E4M3}"
            })
    void features_that_change_products_change_them_alike_on_ranks(
            int data, String distributed, String precision, String features) throws IOException {
        Path whole = folder.resolve("whole");
        run(parts(data, 4, "", precision, debug(features)), whole, Collectives.alone(), RunOptions.defaults());
        Path ranks = folder.resolve("ranks");
        threads(
                data * (distributed.contains("pipeline") ? 2 : 1),
                parts(data, 4, distributed, precision, debug(features)),
                ranks,
                RunOptions.defaults());
        assertSame(whole, ranks, STEPS);
        Path plain = folder.resolve("plain");
        run(parts(data, 4, "", precision), plain, Collectives.alone(), RunOptions.defaults());
        assertFalse(
                Arrays.equals(
                        contents(plain, STEPS).get("parameter w1"),
                        contents(ranks, STEPS).get("parameter w1")),
                "they change something");
    }

    private static Map<String, Double> values(Path run) throws IOException {
        Map<String, Double> values = new TreeMap<>();
        for (String line : observed(run).lines().toList()) {
            JsonNode of = new ObjectMapper().readTree(line);
            String name = of.path("step") + " " + of.path("layer").asText() + " "
                    + of.path("tensor").asText();
            of.path("stats")
                    .properties()
                    .forEach(s ->
                            values.put(name + " " + s.getKey(), s.getValue().asDouble()));
        }
        return values;
    }

    /** The first layer has columns of the weight, the second rows: of each kind of tensor one is a part, one whole, one a summand. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {"1 | 2 | tensor: 2", "2 | 4 | tensor: 2, zero: 3"})
    void of_layers_that_ranks_share_statistics_are_those_of_whole_tensors(
            int data, int accumulation, String distributed) throws IOException {
        requireWholeTensors(data, accumulation, distributed, () -> CpuDevice.of(1));
    }

    @Tag("kernels")
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {"1 | 2 | tensor: 2", "2 | 4 | tensor: 2, zero: 3"})
    void of_layers_that_GPUs_share_statistics_are_those_of_whole_tensors(int data, int accumulation, String distributed)
            throws IOException {
        requireWholeTensors(data, accumulation, distributed, TestGpus::ownDevice);
    }

    private void requireWholeTensors(int data, int accumulation, String distributed, Supplier<Device> devices)
            throws IOException {
        Path whole = folder.resolve("whole");
        run(
                parts(data, accumulation, "", "mode: fp32", debug(STATS)),
                devices.get(),
                whole,
                Collectives.alone(),
                RunOptions.defaults());
        Path ranks = folder.resolve("ranks");
        TrainingParts parts = parts(data, accumulation, distributed, "mode: fp32", debug(STATS));
        RankThreads.run(2 * data, DEADLINE, world -> run(parts, devices.get(), ranks, world, RunOptions.defaults()));
        Map<String, Double> expected = values(whole);
        Map<String, Double> got = values(ranks);
        assertEquals(expected.keySet(), got.keySet());
        // sums of two ranks are rounded in another order, 2^-24 of the largest summands, and three updates of the
        // weights add to that; the smallest element, 2^range below the
        // largest, that much more
        expected.forEach((name, value) -> assertEquals(
                value,
                Objects.requireNonNull(got.get(name), name),
                1e-5 * (1 + Math.abs(value)) + (name.contains("dynamic_range") ? Math.pow(2, value - 22) : 0),
                name));
    }

    @Test
    void each_rank_dumps_what_it_has_into_a_folder_of_its_own() throws IOException {
        threads(
                2,
                parts(1, 2, "tensor: 2", "mode: fp32", debug(STATS + DUMPS), "freeze: [b1]"),
                folder,
                RunOptions.defaults());
        for (int rank = 0; rank < 2; rank++) {
            Path dumps = folder.resolve("tensor_dumps/rank_" + rank + "/iter_000001");
            try (Stream<Path> files = Files.list(dumps)) {
                assertEquals(4, files.count());
            }
            try (ModelFile weight = ModelFile.open(dumps.resolve("first_weight.safetensors"))) {
                assertEquals(
                        Shape.of(SmallRun.HIDDEN / 2, SmallRun.IN),
                        Objects.requireNonNull(weight.model().tensors().get("high_precision"))
                                .shape());
            }
        }
        // of the second layer both have the sum
        String output = "iter_000001/second_output.safetensors";
        assertArrayEquals(
                Files.readAllBytes(folder.resolve("tensor_dumps/rank_0").resolve(output)),
                Files.readAllBytes(folder.resolve("tensor_dumps/rank_1").resolve(output)));
    }

    @Test
    void transformer_engines_log_is_written_once() throws IOException {
        String log = debug(STATS).replace("debug: {", "debug: {te_log: true, ");
        threads(2, parts(2, 4, "zero: 0", "mode: bf16", log), folder, RunOptions.defaults());
        try (Stream<Path> files = Files.list(folder.resolve("nvdlfw_inspect_statistics_logs"))) {
            assertEquals(
                    List.of("nvdlfw_inspect_globalrank-0.log"),
                    files.map(f -> f.getFileName().toString()).toList());
        }
        assertTrue(observed(folder).lines().count() > 0);
    }
}
