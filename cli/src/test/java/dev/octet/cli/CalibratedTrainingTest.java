package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.statistics.TensorStatistics;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.qat.FakeQuantizer;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import dev.octet.trainer.qat.QuantizedGraph;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Runs in mode {@code qat} that start from the statistics of {@code octet calibrate}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CalibratedTrainingTest {
    private static final Path LLAMA =
            Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-lm/llama");
    private static final Path TEXTS = LLAMA.resolve("../../../text/train.jsonl").normalize();

    @TempDir
    Path folder;

    @BeforeEach
    void write_samples() throws IOException {
        TinyBert.samples(folder.resolve("train.npz"), 24, 1);
        TinyBert.samples(folder.resolve("calibration.npz"), 12, 3);
    }

    private static void succeeds(String... words) {
        CommandLine line = CommandLine.run(words);
        assertEquals(ExitCode.OK, line.code(), line.err() + line.out());
    }

    /** Takes the statistics of the BERT. */
    private Path calibrated() {
        Path statistics = folder.resolve("model.stats");
        succeeds(
                "calibrate",
                TinyBert.MODEL.toString(),
                "-o",
                statistics.toString(),
                "--data",
                folder.resolve("calibration.npz").toString());
        return statistics;
    }

    /** A configuration for the BERT. */
    private Path config(String precision, String... lines) throws IOException {
        Path config = folder.resolve("run.yaml");
        Files.writeString(config, """
            data: {train: train.npz}
            loss: {type: mse, output: logits, distillation: {teacher: '%s'}}
            batch_size: 8
            steps: 6
            optimizer: {lr: 1.0e-3}
            precision: %s
            %s
            """.formatted(TinyBert.MODEL, precision, String.join("\n", lines)));
        return config;
    }

    private CommandLine train(Path model, Path config, Path run, String... more) {
        List<String> words = new ArrayList<>(
                List.of("train", model.toString(), "--config", config.toString(), "-o", run.toString()));
        words.addAll(List.of(more));
        return CommandLine.run(words.toArray(String[]::new));
    }

    private static List<FakeQuantizer> inputs(Path model, Path config) throws IOException {
        try (OpenedModel opened = OpenedModel.of(model)) {
            TrainingConfig read = TrainingConfig.read(config);
            List<Ties.Tie> ties = read.ties().of(Ties.find(opened.canonical().graph()));
            QuantizedGraph graph = QuantizedGraph.of(
                    opened.source().withTies(ties).graph(),
                    read.precision().qat().orElseThrow(),
                    1);
            return graph.quantizers().stream()
                    .filter(q -> q.tensor() == LinearTensor.INPUT)
                    .toList();
        }
    }

    private static Map<String, Float> parameters(Path run) throws IOException {
        Map<String, Float> all = new HashMap<>();
        try (CheckpointFile file = new CheckpointFolder(run).openNewest()) {
            file.state().parameters().forEach((name, t) -> {
                if (name.contains("input_quantizer")) {
                    all.put(name, t.toFloats()[0]);
                }
            });
        }
        return all;
    }

    /** Scale and zero point, as of signed codes, with which a quantised file rounds each value, by its name. */
    private static Map<String, List<Number>> rounded(Path quantized) throws IOException {
        Map<String, List<Number>> all = new TreeMap<>();
        try (ModelFile file = ModelFile.open(quantized)) {
            Graph graph = file.model().graph().orElseThrow().graph();
            for (Node node : graph.nodes()) {
                if (node.is("QuantizeLinear")
                        && !graph.initializers().containsKey(node.input(0))
                        && graph.initializers().containsKey(node.input(1))) {
                    Tensor scale = requireNonNull(graph.initializers().get(node.input(1)))
                            .tensor()
                            .orElseThrow();
                    Tensor zero = requireNonNull(graph.initializers().get(node.input(2)))
                            .tensor()
                            .orElseThrow();
                    byte code = zero.bytes().get(ValueLayout.JAVA_BYTE, 0);
                    int signed = zero.dtype() == DType.U8 ? (code & 0xFF) + Byte.MIN_VALUE : code;
                    // names of what a rewrite puts in between
                    all.put(
                            node.input(0).replaceFirst("_(int8|fp8)_(y|2d)$", ""),
                            List.of(scale.toFloats()[0], signed));
                }
            }
        }
        return all;
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                // method of inputs, format, recipe and target with the same codes, calibrator
                "lsq | int8 | int8 | tensorrt | absmax",
                "lsq | int8 | int8 | tensorrt | mse",
                "lsq | int8 | int8 | tensorrt | percentile:99.9",
                "lsq | int8 | int8 | tensorrt | entropy",
                "range | int8 | int8 | onnxruntime | absmax",
                "range | uint8 | int8 | onnxruntime | mse",
                "range | uint8 | int8 | onnxruntime | percentile:99",
                "lsq | e4m3 | fp8 | onnxruntime | absmax",
                "lsq | e4m3 | fp8 | onnxruntime | mse",
            })
    void scales_start_at_the_bits_that_quantize_writes_from_the_same_statistics(
            String method, String format, String recipe, String target, String calibrator) throws IOException {
        Path statistics = calibrated();
        Path config = config(
                "{mode: qat, inputs: {method: %s, format: %s}, scales: {statistics: model.stats, calibrator: '%s'}}"
                        .formatted(method, format, calibrator),
                "freeze: [_quantizer]");
        Path run = folder.resolve("run");
        CommandLine trained = train(TinyBert.MODEL, config, run, "--steps", "1");
        assertEquals(ExitCode.OK, trained.code(), trained.err());
        Path quantized = folder.resolve("m.onnx");
        succeeds(
                "quantize",
                TinyBert.MODEL.toString(),
                "-o",
                quantized.toString(),
                "--recipe",
                recipe,
                "--target",
                target,
                "--statistics",
                statistics.toString(),
                "--calibrator",
                calibrator,
                "--rounding",
                "nearest");
        Map<String, List<Number>> expected = new TreeMap<>();
        Map<String, Float> start = parameters(run);
        for (FakeQuantizer q : inputs(TinyBert.MODEL, config)) {
            String zero = q.parameters().get(Place.ZERO_POINT);
            int moved = format.equals("uint8") ? Byte.MIN_VALUE : 0;
            expected.put(
                    q.value(),
                    List.of(
                            requireNonNull(start.get(q.parameter(Place.SCALE))),
                            zero == null ? 0 : (int) (float) requireNonNull(start.get(zero)) + moved));
        }
        Map<String, List<Number>> written = rounded(quantized);
        assertEquals(10, written.size());
        assertEquals(written, expected);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "inputs: {format: e4m3} | fp8 | absmax",
                "inputs: {method: fixed, format: e4m3} | fp8 | absmax",
                "inputs: {format: e4m3} | fp8 | percentile:99.9",
                "inputs: {method: dynamic, format: nvfp4} | nvfp4 | absmax",
                "inputs: {method: dynamic, format: nvfp4} | nvfp4 | mse"
            })
    void scales_of_a_checkpoint_start_at_the_bits_that_quantize_writes(String inputs, String recipe, String calibrator)
            throws IOException {
        Path statistics = folder.resolve("llama.stats");
        succeeds("calibrate", LLAMA.toString(), "-o", statistics.toString(), "--data", TEXTS.toString());
        Path config = folder.resolve("run.yaml");
        Files.writeString(config, """
            data: {train: '%s', max_length: 24}
            loss: {type: causal-lm}
            batch_size: 4
            steps: 1
            optimizer: {lr: 1.0e-3}
            freeze: [_quantizer]
            precision: {mode: qat, exempt_last: true, scales: {statistics: llama.stats, calibrator: '%s'}, %s}
            """.formatted(TEXTS, calibrator, inputs));
        Path run = folder.resolve("run");
        CommandLine trained = train(LLAMA, config, run);
        assertEquals(ExitCode.OK, trained.code(), trained.err());
        Path quantized = folder.resolve("quantized");
        succeeds(
                "quantize",
                LLAMA.toString(),
                "-o",
                quantized.toString(),
                "--recipe",
                recipe,
                "--target",
                "modelopt",
                "--statistics",
                statistics.toString(),
                "--calibrator",
                calibrator);
        Map<String, Float> start = parameters(run);
        Map<String, Float> expected = new TreeMap<>();
        for (FakeQuantizer q : inputs(LLAMA, config)) {
            Float global = start.get(q.parameters().getOrDefault(Place.GLOBAL_SCALE, ""));
            Float scale = start.get(q.parameters().getOrDefault(Place.SCALE, ""));
            Float amax = start.get(q.parameters().getOrDefault(Place.AMAX, ""));
            float found = global != null ? global : scale != null ? scale : requireNonNull(amax) / 448;
            q.modules().forEach(module -> expected.put(module, found));
        }
        Map<String, Float> written = new TreeMap<>();
        try (ModelFile file = ModelFile.open(quantized.resolve("model.safetensors"))) {
            file.model().tensors().forEach((name, t) -> {
                if (name.endsWith(".input_scale")) {
                    written.put(name.replace(".input_scale", ""), t.toFloats()[0]);
                }
            });
        }
        assertEquals(14, expected.size());
        assertEquals(expected, written);
    }

    private static Map<String, byte[]> files(Path run) throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(new CheckpointFolder(run).path(6))) {
            for (Path file : all.toList()) {
                files.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return files;
    }

    @Test
    void a_resumed_run_has_the_bytes_of_one_that_was_not_interrupted() throws IOException {
        Path statistics = calibrated();
        Path config = config("{mode: qat, weights: {format: int4}, inputs: {format: int8}, scales: {statistics:"
                + " model.stats, calibrator: mse}}");
        Path whole = folder.resolve("whole");
        Path pieces = folder.resolve("pieces");
        assertEquals(ExitCode.OK, train(TinyBert.MODEL, config, whole).code());
        assertEquals(
                ExitCode.OK,
                train(TinyBert.MODEL, config, pieces, "--steps", "2").code());
        succeeds("train", "--resume", pieces.toString());
        Map<String, byte[]> expected = files(whole);
        Map<String, byte[]> actual = files(pieces);
        assertEquals(expected.keySet(), actual.keySet());
        expected.forEach((name, bytes) -> assertArrayEquals(bytes, actual.get(name), name));

        // other statistics are another run
        Files.delete(statistics);
        succeeds(
                "calibrate",
                TinyBert.MODEL.toString(),
                "-o",
                statistics.toString(),
                "--data",
                folder.resolve("train.npz").toString());
        Path changed = folder.resolve("changed");
        Files.move(pieces, changed);
        CommandLine resumed = CommandLine.run("train", "--resume", changed.toString());
        assertEquals(ExitCode.USAGE, resumed.code(), resumed.err());
        assertTrue(resumed.err().contains("sha256.statistics"), resumed.err());
    }

    private CommandLine trainFrom(Statistics statistics) throws IOException {
        Files.delete(folder.resolve("model.stats"));
        StatisticsFile.write(statistics, folder.resolve("model.stats"));
        return train(
                TinyBert.MODEL,
                config("{mode: qat, inputs: {format: int8}, scales: {statistics: model.stats}}"),
                folder.resolve("run"));
    }

    private static Statistics with(Statistics s, Map<String, TensorStatistics> tensors) {
        return new Statistics(s.octetVersion(), s.modelDigest(), s.data(), tensors);
    }

    @Test
    void a_layer_that_the_statistics_lack_is_named_with_the_command_that_makes_them() throws IOException {
        Statistics all = StatisticsFile.read(calibrated());
        Map<String, TensorStatistics> fewer = new LinkedHashMap<>(all.tensors());
        FakeQuantizer first = inputs(TinyBert.MODEL, config("{mode: qat, inputs: {format: int8}}"))
                .getFirst();
        fewer.remove(first.value());
        CommandLine line = trainFrom(with(all, fewer));
        assertEquals(ExitCode.INPUT, line.code(), line.err());
        String layer = first.modules().getFirst();
        assertTrue(line.err().contains("the statistics have nothing on the input of '" + layer + "'"), line.err());
        assertTrue(line.err().contains("octet calibrate " + TinyBert.MODEL + " -o "), line.err());
        assertTrue(line.err().contains("--force"), line.err());
        assertTrue(line.err().contains("[{match: '" + layer + "', inputs: none}]"), line.err());
        assertTrue(Files.notExists(folder.resolve("run")));
    }

    @Test
    void a_layer_that_calibration_never_reached_is_named() throws IOException {
        Statistics all = StatisticsFile.read(calibrated());
        Map<String, TensorStatistics> empty = new LinkedHashMap<>(all.tensors());
        FakeQuantizer first = inputs(TinyBert.MODEL, config("{mode: qat, inputs: {format: int8}}"))
                .getFirst();
        empty.put(first.value(), TensorStatistics.EMPTY);
        CommandLine line = trainFrom(with(all, empty));
        assertEquals(ExitCode.INPUT, line.code(), line.err());
        assertTrue(
                line.err()
                        .contains("'" + first.modules().getFirst()
                                + "' has no scale to start from: calibration never reached its input"),
                line.err());
    }

    @Test
    void statistics_of_another_model_are_refused_as_quantize_refuses_them() throws IOException {
        Statistics all = StatisticsFile.read(calibrated());
        CommandLine trained = trainFrom(new Statistics(all.octetVersion(), "00ff", all.data(), all.tensors()));
        CommandLine quantized = CommandLine.run(
                "quantize",
                TinyBert.MODEL.toString(),
                "-o",
                folder.resolve("m.onnx").toString(),
                "--recipe",
                "int8",
                "--statistics",
                folder.resolve("model.stats").toString());
        for (CommandLine line : List.of(trained, quantized)) {
            assertEquals(ExitCode.INPUT, line.code(), line.err());
            assertTrue(
                    line.err().contains("the statistics are of another model than '" + TinyBert.MODEL + "'"),
                    line.err());
        }
    }

    @Test
    void statistics_that_no_input_starts_from_are_refused() throws IOException {
        calibrated();
        for (String operands :
                Set.of("weights: {format: int4}", "method: dynamic, weights: {format: int8}, inputs: {format: int8}")) {
            CommandLine line = train(
                    TinyBert.MODEL,
                    config("{mode: qat, " + operands + ", scales: {statistics: model.stats}}"),
                    folder.resolve("run"));
            assertEquals(ExitCode.USAGE, line.code(), line.err());
            assertTrue(line.err().contains("no input starts from them"), line.err());
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{calibrator: mse} | there are none",
                "{statistics: model.stats, start_batches: 2} | no micro-batch is looked at",
                "{statistics: model.stats, calibrator: best} | there is no calibrator 'best'",
                "{statistics: model.stats, calibrator: 'percentile:0'} | 'percentile:0' names no percentile",
                "{statistics: model.stats, calibrator: mse} | mse is for integers of 4 or 8 bits",
            })
    void settings_that_cannot_be_are_refused_with_their_line(String scales, String why) throws IOException {
        CommandLine line = train(
                TinyBert.MODEL,
                config("{mode: qat, inputs: {format: int6}, scales: " + scales + "}"),
                folder.resolve("run"));
        assertEquals(ExitCode.USAGE, line.code(), line.err());
        assertTrue(line.err().contains(why), line.err());
        assertTrue(line.err().contains("run.yaml"), line.err());
    }
}
