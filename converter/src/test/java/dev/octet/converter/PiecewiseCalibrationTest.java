package dev.octet.converter;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.ProgressListener;
import dev.octet.formats.ModelFile;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CancellationException;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Models calibrated piece by piece, next to the same models in one piece. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class PiecewiseCalibrationTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models", "tiny-onnx");
    private static final int SAMPLES = 6;
    private static final int LENGTH = 7;

    @TempDir
    Path folder;

    /** Not those of BERT and GPT-2 by the dynamo exporter: their Dropout is in training mode, so no two runs are alike. */
    static List<Path> models() throws IOException {
        try (Stream<Path> files = Files.list(MODELS)) {
            return files.filter(f -> f.toString().endsWith(".onnx"))
                    .filter(f -> !f.getFileName().toString().matches("(bert|gpt2)_eager_dynamo.*"))
                    .sorted()
                    .toList();
        }
    }

    /** ONNX Runtime's RotaryEmbedding wants angles for each sample, the exporter gives them once for all. */
    private static int batchSize(Path model) {
        return model.endsWith("llama_eager_dynamo23.onnx") ? 1 : 2;
    }

    /** Token ids below 50, the first 1 + i % 7 tokens of sample i real; pictures of noise. */
    private Path data(List<InputSpec> inputs) throws IOException {
        SplittableRandom random = new SplittableRandom(7);
        Path path = folder.resolve("data.npz");
        try (Arena arena = Arena.ofConfined();
                NpzWriter w = NpzWriter.stored(path)) {
            for (InputSpec in : inputs) {
                if (in.dtype() == DType.F32) {
                    float[] pixels = new float[SAMPLES * 3 * 16 * 16];
                    for (int i = 0; i < pixels.length; i++) {
                        pixels[i] = (float) random.nextDouble(-1, 1);
                    }
                    w.add(Tensor.ofFloats(arena, in.name(), Shape.of(SAMPLES, 3, 16, 16), pixels));
                    continue;
                }
                int length = (int) in.fixed(1).orElse(LENGTH);
                long[] values = new long[SAMPLES * length];
                for (int i = 0; i < values.length; i++) {
                    int token = i % length;
                    values[i] = switch (in.name()) {
                        case "attention_mask" -> token <= i / length % LENGTH ? 1 : 0;
                        case "token_type_ids" -> token > 2 ? 1 : 0;
                        case "position_ids" -> token;
                        default -> random.nextInt(50);
                    };
                }
                w.add(Tensor.ofLongs(arena, in.name(), Shape.of(SAMPLES, length), values));
            }
            w.commit();
        }
        return path;
    }

    /** Counts the pieces of a run. */
    private static final class Pieces implements ProgressListener {
        private int count = 1;
        private int stopAt = Integer.MAX_VALUE;

        @Override
        public void samples(int done, int total) {}

        @Override
        public void piece(int piece, int pieces) {
            count = pieces;
            if (piece == stopAt) {
                throw new CancellationException("enough");
            }
        }
    }

    private static Statistics calibrate(Path model, Path data, CalibrationOptions options) throws IOException {
        try (ModelFile file = ModelFile.open(model);
                Converter converter = Converter.of(file.model());
                Dataset samples = NpzDataset.open(data, InputSpec.of(converter.source()))) {
            Plan plan = converter.plan(Recipes.FP8_PER_CHANNEL, List.of());
            return converter.calibrate(plan, samples, "model", options);
        }
    }

    private static List<InputSpec> inputs(Path model) throws IOException {
        try (ModelFile file = ModelFile.open(model);
                Converter converter = Converter.of(file.model())) {
            return InputSpec.of(converter.source());
        }
    }

    @ParameterizedTest
    @MethodSource("models")
    void wherever_a_model_is_cut_the_statistics_are_the_same_to_the_bit(Path model) throws IOException {
        Path data = data(inputs(model));
        CalibrationOptions options = CalibrationOptions.defaults().withBatchSize(batchSize(model));
        Pieces one = new Pieces();
        Statistics whole =
                calibrate(model, data, options.withMemory(Long.MAX_VALUE).withProgress(one));
        assertEquals(1, one.count);
        assertTrue(whole.tensors().size() > 4, whole.tensors().keySet().toString());
        List<Integer> counts = new ArrayList<>();
        for (long memory : new long[] {0, 20_000, 60_000}) {
            Pieces pieces = new Pieces();
            assertEquals(
                    whole, calibrate(model, data, options.withMemory(memory).withProgress(pieces)), "memory " + memory);
            counts.add(pieces.count);
        }
        assertTrue(
                counts.get(0) > 4 && counts.get(0) > counts.get(1) && counts.get(1) > counts.get(2), counts.toString());
    }

    @Test
    void a_run_that_stops_in_the_middle_goes_on_with_the_piece_it_was_in_and_leaves_only_the_statistics()
            throws IOException {
        Path model = MODELS.resolve("llama_eager_script17.onnx");
        Path data = data(inputs(model));
        CalibrationOptions options =
                CalibrationOptions.defaults().withBatchSize(2).withMemory(0);
        Statistics whole = calibrate(model, data, options.withMemory(Long.MAX_VALUE));
        for (int stop : new int[] {1, 2, 5}) {
            Path output = Files.createDirectory(folder.resolve("stop" + stop)).resolve("model.stats");
            Pieces first = new Pieces();
            first.stopAt = stop;
            try {
                calibrate(model, data, options.withCheckpoint(output, 2).withProgress(first));
            } catch (CancellationException e) {
                assertEquals("enough", e.getMessage());
            }
            Pieces second = new Pieces();
            assertEquals(
                    whole,
                    calibrate(model, data, options.withCheckpoint(output, 2).withProgress(second)));
            assertEquals(first.count - stop + 1, second.count, "pieces that were done are not run again");
            try (Stream<Path> left = Files.list(output.getParent())) {
                assertEquals(List.of(output), left.toList());
            }
        }
    }
}
