package dev.octet.converter.runtime;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.data.Batch;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.converter.data.TextDataset;
import dev.octet.converter.data.TextOptions;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.onnx.OnnxReader;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMoments;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsAccumulator;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.BufferedReader;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CancellationException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class CalibrationRunTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final int SAMPLES = 20;
    private static final int LENGTH = 5;
    private static final GraphModel MODEL = TestModels.doubling(0);
    private static final List<String> TAPS = List.of(TestModels.TAP);

    @TempDir
    Path folder;

    private Path npz;
    private CalibrationOptions options;

    @BeforeEach
    void write_the_data() throws IOException {
        npz = TestModels.data(folder.resolve("data.npz"), SAMPLES, LENGTH, 1);
        options = CalibrationOptions.defaults().withBatchSize(3);
    }

    private Statistics run(CalibrationOptions o) throws IOException {
        return run("model", npz, TAPS, o);
    }

    private static Statistics run(String modelDigest, Path data, List<String> taps, CalibrationOptions o)
            throws IOException {
        try (Dataset d = NpzDataset.open(data, InputSpec.of(MODEL))) {
            return CalibrationRun.run(MODEL, modelDigest, taps, d, o);
        }
    }

    @Test
    void the_statistics_are_those_of_the_real_tokens_whatever_stands_in_the_padding() throws IOException {
        Statistics s = run(options);
        StatisticsAccumulator expected = new StatisticsAccumulator();
        expected.add(FloatBuffer.wrap(TestModels.expected(SAMPLES, LENGTH, 1)));
        TensorStatistics e = expected.snapshot();
        TensorStatistics actual = s.tensors().getOrDefault(TestModels.TAP, TensorStatistics.EMPTY);
        assertEquals(e.count(), actual.count());
        assertEquals(e.histogram(), actual.histogram());
        assertEquals(e.min(), actual.min());
        assertEquals(e.max(), actual.max());
        assertEquals(e.sumOfSquares(), actual.sumOfSquares(), 1e-9);
        assertTrue(s.complete());
        assertEquals(SAMPLES, s.samplesDone());
    }

    @Test
    void the_batch_size_and_the_number_of_threads_do_not_change_what_is_counted() throws IOException {
        TensorStatistics one = run(options.withBatchSize(1).withThreads(1))
                .tensors()
                .getOrDefault(TestModels.TAP, TensorStatistics.EMPTY);
        for (int batch : new int[] {2, 7, 20, 64}) {
            TensorStatistics other = run(options.withBatchSize(batch).withThreads(2))
                    .tensors()
                    .getOrDefault(TestModels.TAP, TensorStatistics.EMPTY);
            assertEquals(one.histogram(), other.histogram());
            assertEquals(one.count(), other.count());
        }
    }

    @Test
    void a_run_that_fails_in_the_middle_goes_on_and_ends_with_the_same_bits() throws IOException {
        Statistics whole = run(options);
        Path checkpoint = folder.resolve("checkpoint.json");
        for (int stop : new int[] {3, 6, 7, 18}) {
            Files.deleteIfExists(checkpoint);
            CalibrationOptions stopping = options.withCheckpoint(checkpoint, 6).withProgress((done, total) -> {
                if (done >= stop) {
                    throw new CancellationException("enough");
                }
            });
            assertThrows(CancellationException.class, () -> run(stopping));
            assertEquals(whole, run(options.withCheckpoint(checkpoint, 6)), "stopped after " + stop);
            assertEquals(whole, StatisticsFile.read(checkpoint));
        }
    }

    /** The second moments of the tap, one row of the triangle after the other. */
    private double[] moments(CalibrationOptions o, Path file) throws IOException {
        try (Dataset data = NpzDataset.open(npz, InputSpec.of(MODEL))) {
            CalibrationRun.runTaps(
                    MODEL, "model", List.of(Tap.ofLinear("tap", TestModels.TAP, 4)), data, o.withSecondMoments(file));
        }
        SecondMoment h =
                Objects.requireNonNull(SecondMoments.read(file).byName().get("tap"));
        double[] triangle = new double[11];
        for (int i = 0, at = 0; i < 4; i++) {
            for (int j = 0; j <= i; j++) {
                triangle[at++] = h.get(i, j);
            }
        }
        triangle[10] = h.rows();
        return triangle;
    }

    @Test
    void second_moments_of_a_run_that_fails_in_the_middle_go_on_and_end_with_the_same_bits() throws IOException {
        double[] whole = moments(options, folder.resolve("whole.moments"));
        assertTrue(whole[0] > 0 && whole[10] > SAMPLES);
        for (int stop : new int[] {3, 9, 18}) {
            Path checkpoint = folder.resolve("stopped-" + stop);
            Path file = folder.resolve("stopped-" + stop + ".moments");
            CalibrationOptions stopping = options.withCheckpoint(checkpoint, 3).withProgress((done, total) -> {
                if (done >= stop) {
                    throw new IllegalStateException("stopped");
                }
            });
            assertThrows(IllegalStateException.class, () -> moments(stopping, file));
            assertFalse(Files.exists(file));
            int[] first = {-1};
            double[] resumed = moments(
                    options.withCheckpoint(checkpoint, 3).withProgress((done, total) -> {
                        first[0] = first[0] < 0 ? done : first[0];
                    }),
                    file);
            assertArrayEquals(whole, resumed, "stopped after " + stop);
            assertTrue(stop < 6 || first[0] > 3, "it began at " + first[0]);
            assertFalse(Files.exists(folder.resolve("stopped-" + stop + ".pieces")));
        }
    }

    @Test
    void a_process_that_is_killed_in_the_middle_leaves_a_checkpoint_to_go_on_from() throws Exception {
        Path checkpoint = folder.resolve("checkpoint.json");
        Path temporary = Files.createDirectory(folder.resolve("temporary"));
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "--enable-native-access=ALL-UNNAMED",
                        "-Djava.io.tmpdir=" + temporary,
                        "-cp",
                        System.getProperty("java.class.path"),
                        KilledCalibration.class.getName(),
                        npz.toString(),
                        checkpoint.toString(),
                        "9")
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try (BufferedReader out = process.inputReader()) {
            assertEquals("ready", out.readLine());
        } finally {
            process.destroyForcibly().waitFor();
        }
        Statistics left = StatisticsFile.read(checkpoint);
        assertFalse(left.complete());
        assertEquals(9, left.samplesDone());
        assertEquals(0, tappedFolders(temporary));
        assertEquals(run(options), run(options.withCheckpoint(checkpoint, 3)));
    }

    @Test
    void a_finished_checkpoint_is_given_back_without_running_the_model() throws IOException {
        Path checkpoint = folder.resolve("checkpoint.json");
        Statistics first = run(options.withCheckpoint(checkpoint, 3));
        Statistics again = run(options.withCheckpoint(checkpoint, 3).withProgress((done, total) -> {
            throw new AssertionError("ran again");
        }));
        assertEquals(first, again);
    }

    @Test
    void a_checkpoint_of_something_else_is_refused_and_stays_as_it_was() throws IOException {
        Path checkpoint = folder.resolve("checkpoint.json");
        run(options.withCheckpoint(checkpoint, 3));
        byte[] before = Files.readAllBytes(checkpoint);
        CalibrationOptions resume = options.withCheckpoint(checkpoint, 3);
        Path other = TestModels.data(folder.resolve("other.npz"), SAMPLES, LENGTH, 2);
        assertTrue(refusal(() -> run("changed", npz, TAPS, resume)).contains("another model"));
        assertTrue(refusal(() -> run("model", other, TAPS, resume)).contains("other data"));
        assertTrue(refusal(() -> run("model", npz, List.of(TestModels.TAP, "out"), resume))
                .contains("other values"));
        assertEquals(List.of(before.length), List.of(Files.readAllBytes(checkpoint).length));
        Files.writeString(checkpoint, "{}");
        refusal(() -> run(resume));
    }

    private static String refusal(Executable run) {
        return assertThrows(InvalidDataException.class, run).what();
    }

    @Test
    void the_statistics_do_not_grow_with_the_samples() throws IOException {
        Path few = TestModels.data(folder.resolve("few.npz"), 50, LENGTH, 1);
        Path many = TestModels.data(folder.resolve("many.npz"), 500, LENGTH, 1);
        Path a = folder.resolve("a.json");
        Path b = folder.resolve("b.json");
        StatisticsFile.write(run("model", few, TAPS, options), a);
        StatisticsFile.write(run("model", many, TAPS, options), b);
        // a tenfold of samples fills some more bins, and the counts have a digit more
        assertTrue(Files.size(b) < 2 * Files.size(a), Files.size(a) + " " + Files.size(b));
    }

    private static long tappedFolders(Path tmp) throws IOException {
        try (var files = Files.list(tmp)) {
            return files.filter(p -> p.getFileName().toString().startsWith("octet-tapped-"))
                    .count();
        }
    }

    @Test
    void a_value_that_the_model_has_not_cannot_be_tapped() {
        assertTrue(refusal(() -> run("model", npz, List.of("nothing"), options)).contains("nothing"));
    }

    /** As what nodes compute, without padding; in the order of which both are asked for. */
    @Test
    void inputs_and_constants_are_tapped_as_they_are() throws IOException {
        Statistics s = run("model", npz, List.of("x", TestModels.TAP, "two", "bias"), options);
        TensorStatistics x = s.tensors().getOrDefault("x", TensorStatistics.EMPTY);
        TensorStatistics doubled = s.tensors().getOrDefault(TestModels.TAP, TensorStatistics.EMPTY);
        assertEquals(doubled.count(), x.count());
        assertEquals(doubled.amax(), 2 * x.amax());
        assertEquals(doubled.sumOfSquares(), 4 * x.sumOfSquares(), 1e-9);
        assertEquals(2, s.tensors().getOrDefault("two", TensorStatistics.EMPTY).amax());
        assertEquals(0, s.tensors().getOrDefault("bias", TensorStatistics.EMPTY).amax());
    }

    @Test
    void a_model_that_fixes_its_batch_size_has_its_way() throws IOException {
        Path vit = TESTDATA.resolve("models/tiny-onnx/vit_eager_script17.onnx");
        try (Arena arena = Arena.ofConfined()) {
            GraphModel model = OnnxReader.read(vit, arena);
            for (int samples : new int[] {4, 5}) {
                Path data = folder.resolve("images.npz");
                try (var w = NpzWriter.stored(data)) {
                    float[] x = new float[samples * 3 * 16 * 16];
                    for (int i = 0; i < x.length; i++) {
                        x[i] = (float) Math.sin(i);
                    }
                    w.add(Tensor.ofFloats(arena, "pixel_values", Shape.of(samples, 3, 16, 16), x));
                    w.commit();
                }
                try (Dataset d = NpzDataset.open(data, InputSpec.of(model))) {
                    if (samples == 4) {
                        Statistics s = CalibrationRun.run(model, "vit", linearInputs(model), d, options);
                        assertTrue(s.complete());
                        s.tensors().values().forEach(t -> assertTrue(t.count() > 0 && t.nans() == 0));
                    } else {
                        assertTrue(refusal(() -> CalibrationRun.run(model, "vit", linearInputs(model), d, options))
                                .contains("exactly 2"));
                    }
                }
            }
        }
    }

    private static List<String> linearInputs(GraphModel model) {
        return model.graph().nodes().stream()
                .filter(n -> n.is("MatMul") || n.is("Gemm"))
                .filter(n -> model.graph().initializers().containsKey(n.input(1)))
                .map(n -> n.input(0))
                .distinct()
                .toList();
    }

    /** Padded in batches and alone without padding, a BERT computes the same for its real tokens, up to rounding. */
    @Test
    void a_padded_batch_of_text_counts_what_its_texts_alone_do() throws IOException {
        Path text = Files.writeString(
                folder.resolve("t.jsonl"),
                "{\"text\": \"the cat sat on the mat\"}\n{\"text\": \"dog\"}\n{\"text\": \"a dog ran far\"}\n");
        Path tokenizer = TESTDATA.resolve("tokenizer/words.json");
        try (Arena arena = Arena.ofConfined()) {
            for (String name : List.of("bert_eager_script17", "bert_eager_script14", "gpt2_eager_script17")) {
                GraphModel model = OnnxReader.read(TESTDATA.resolve("models/tiny-onnx/" + name + ".onnx"), arena);
                List<String> taps = linearInputs(model);
                assertTrue(taps.size() > 3, name + " " + taps);
                try (Dataset d = TextDataset.open(text, tokenizer, InputSpec.of(model), TextOptions.defaults())) {
                    Map<String, TensorStatistics> padded =
                            CalibrationRun.run(model, "m", taps, d, options).tensors();
                    Map<String, TensorStatistics> alone = CalibrationRun.run(
                                    model, "m", taps, d, options.withBatchSize(1))
                            .tensors();
                    for (String tap : taps) {
                        assertEquals(
                                alone.getOrDefault(tap, TensorStatistics.EMPTY).count(),
                                padded.getOrDefault(tap, TensorStatistics.EMPTY).count(),
                                name + " " + tap);
                        assertEquals(
                                alone.getOrDefault(tap, TensorStatistics.EMPTY).amax(),
                                padded.getOrDefault(tap, TensorStatistics.EMPTY).amax(),
                                alone.getOrDefault(tap, TensorStatistics.EMPTY).amax() * 1e-4);
                        assertEquals(
                                alone.getOrDefault(tap, TensorStatistics.EMPTY).rms(),
                                padded.getOrDefault(tap, TensorStatistics.EMPTY).rms(),
                                alone.getOrDefault(tap, TensorStatistics.EMPTY).rms() * 1e-5);
                    }
                }
            }
        }
    }

    @Test
    void a_file_that_is_no_model_is_refused_and_a_missing_one_is_missing() throws IOException {
        Path broken = Files.writeString(folder.resolve("broken.onnx"), "not a model");
        assertThrows(
                UnsupportedModelException.class, () -> OnnxRuntimeSession.open(broken, SessionSettings.defaults()));
        assertThrows(
                NoSuchFileException.class,
                () -> OnnxRuntimeSession.open(folder.resolve("none.onnx"), SessionSettings.defaults()));
    }

    @Test
    void a_batch_that_the_model_fails_on_names_its_samples() throws IOException {
        Path path = folder.resolve("model.onnx");
        OnnxWriter.write(MODEL, path);
        try (OnnxRuntimeSession s = OnnxRuntimeSession.open(path, SessionSettings.defaults());
                Dataset d = NpzDataset.open(npz, InputSpec.of(MODEL))) {
            Batch good = d.batch(0, 2);
            Batch without = new Batch(5, 2, Map.of("x", good.tensors().get("x")));
            assertTrue(assertThrows(InvalidDataException.class, () -> s.run(without))
                    .what()
                    .contains("attention_mask"));
            Batch swapped = new Batch(
                    5,
                    2,
                    Map.of(
                            "x",
                            good.tensors().get("attention_mask"),
                            "attention_mask",
                            good.tensors().get("x")));
            assertTrue(assertThrows(InvalidDataException.class, () -> s.run(swapped))
                    .where()
                    .contains("samples 5 to 6"));
        }
    }

    @Test
    void integer_outputs_are_read_as_numbers_too() throws IOException {
        Path path = folder.resolve("model.onnx");
        OnnxWriter.write(MODEL, path);
        try (OnnxRuntimeSession s = OnnxRuntimeSession.open(path, SessionSettings.defaults());
                Dataset d = NpzDataset.open(npz, InputSpec.of(MODEL));
                OnnxRuntimeSession.Outputs o = s.run(d.batch(0, 1))) {
            assertEquals(List.of("out", "mask_out"), List.copyOf(o.names()));
            assertEquals(1f, o.read("mask_out").toFloats()[0]);
            assertThrows(IllegalArgumentException.class, () -> o.read("nothing"));
        }
    }
}
