package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.Converter;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.formats.ModelFile;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import dev.octet.trainer.RunOptions;
import dev.octet.trainer.Trainer;
import dev.octet.trainer.TrainingParts;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.ArraySamples;
import dev.octet.trainer.data.Feed;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The code of docs/library.md, compiled and run. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TourTest {
    private static final Path PAGE = Path.of(System.getProperty("octet.root")).resolve("docs/library.md");
    private static final Path VIT =
            Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-onnx/vit_eager_script17.onnx");
    private static final Path SOURCE =
            Path.of(System.getProperty("octet.root")).resolve("cli/src/test/java/dev/octet/cli/TourTest.java");

    @TempDir
    Path folder;

    // tour
    static void toFp8(Path in, Path samples, Path out) throws IOException {
        try (ModelFile file = ModelFile.open(in);
                Converter converter = Converter.of(file.model());
                Dataset data = NpzDataset.open(samples, InputSpec.of(converter.source()))) {
            Plan plan = converter.plan(Recipes.FP8_PER_CHANNEL, List.of());
            Statistics statistics = converter.calibrate(plan, data, Sha256.of(in), CalibrationOptions.defaults());
            converter.convert(plan, statistics, ConversionOptions.defaults()).save(out);
        }
    }
    // end

    // training
    static double goOn(Path in, Path samples, Path settings, Path run) throws IOException {
        TrainingConfig config = TrainingConfig.read(settings);
        try (ModelFile file = ModelFile.open(in);
                Converter converter = Converter.of(file.model());
                Device device = CpuDevice.of(2);
                Samples train =
                        ArraySamples.npz(samples, Feed.of(converter.canonical(), Optional.of("labels"), -100))) {
            var graph = new GraphSource(converter.canonical(), (g, sizes) -> TrainingGraph.of(g, sizes, new PassLog()));
            var digests = Map.of("model", Sha256.of(in));
            var parts = new TrainingParts(config, graph, Optional.empty(), train, Optional.empty(), digests);
            try (Trainer trainer = Trainer.of(parts, device)) {
                return trainer.run(run, RunOptions.NEW).totals().lastLoss();
            }
        }
    }
    // end

    @Test
    void the_whole_of_quantize_is_one_call_that_measures_its_layers() throws IOException {
        Path samples = TinyBert.samples(folder.resolve("samples.npz"), 8, 3);
        try (ModelFile file = ModelFile.open(TinyBert.MODEL);
                Converter converter = Converter.of(file.model());
                Dataset data = NpzDataset.open(samples, InputSpec.of(converter.source()))) {
            Conversion conversion = converter.quantize(
                    Recipes.FP8_PER_CHANNEL,
                    List.of(),
                    data,
                    Sha256.of(TinyBert.MODEL),
                    ConversionOptions.defaults(),
                    CalibrationOptions.defaults());
            assertEquals(
                    conversion.plan().converted(LayerKind.LINEAR).size(),
                    conversion.comparison().size());
            assertEquals("gptq", conversion.model().metadata().get("octet.rounding"));
            assertTrue(conversion.comparison().stream().allMatch(l -> l.sqnrDb() > 15));
        }
    }

    @Test
    void a_model_is_opened_calibrated_converted_and_saved() throws IOException {
        Path samples = TinyBert.samples(folder.resolve("samples.npz"), 8, 3);
        Path out = folder.resolve("fp8.onnx");
        toFp8(TinyBert.MODEL, samples, out);
        assertTrue(Files.size(out) < Files.size(TinyBert.MODEL));
    }

    @Test
    void training_goes_on_with_a_model() throws IOException {
        Path samples = folder.resolve("images.npz");
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(samples)) {
            double[] pixels =
                    new SplittableRandom(5).doubles(8 * 3 * 16 * 16, -1, 1).toArray();
            float[] floats = new float[pixels.length];
            for (int i = 0; i < floats.length; i++) {
                floats[i] = (float) pixels[i];
            }
            writer.add(Tensor.ofFloats(arena, "pixel_values", Shape.of(8, 3, 16, 16), floats));
            writer.add(Tensor.ofLongs(arena, "labels", Shape.of(8), 0, 1, 2, 3, 4, 0, 1, 2));
            writer.commit();
        }
        Path settings = Files.write(
                folder.resolve("train.yaml"),
                List.of(
                        "data: {train: images.npz}",
                        "loss: {type: cross-entropy}",
                        "batch_size: 2",
                        "optimizer: {lr: 1.0e-2}",
                        "precision: {mode: fp8}",
                        "steps: 40"));
        double loss = goOn(VIT, samples, settings, folder.resolve("run"));
        assertTrue(loss < 0.5, "loss " + loss + " after seeing 8 images ten times");
        assertTrue(Files.exists(folder.resolve("run/checkpoints/step-40/parameters.safetensors")));
    }

    @ParameterizedTest
    @ValueSource(strings = {"tour", "training"})
    void the_page_shows_this_code(String name) throws IOException {
        String source = Files.readString(SOURCE);
        String mark = "    // " + name + "\n";
        String tour = source.substring(source.indexOf(mark) + mark.length());
        String code = tour.substring(0, tour.indexOf("    // end\n")).indent(-4);
        assertTrue(Files.readString(PAGE).contains("```java\n" + code + "```\n"), code);
        assertTrue(code.lines().count() <= 17, "the example is longer than 17 lines");
    }
}
