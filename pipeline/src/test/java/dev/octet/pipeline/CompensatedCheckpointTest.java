package dev.octet.pipeline;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.checkpoint.RoundedError;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.gptq.GptqOptions;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.transform.Transform;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Weights of checkpoints rounded with compensation (GPTQ). */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CompensatedCheckpointTest {
    private static final Path LLAMA =
            Path.of(System.getProperty("octet.testdata"), "models/tiny-hf").resolve("llama");
    private static final String FILE = "model.safetensors";

    @TempDir
    Path folder;

    private static Recipe recipe(String name) {
        return name.equals("int4") ? Recipes.INT4.withGroups(new Granularity.PerGroup(-1, 32)) : Recipes.NVFP4;
    }

    private CheckpointOutcome quantize(Recipe recipe, Path statistics, String out, Job job) throws IOException {
        return Quantize.run(
                Quantize.CheckpointRequest.of(LLAMA, folder.resolve(out), recipe)
                        .withStatistics(statistics)
                        .withRounding(Quantize.WeightRounds.GPTQ),
                job);
    }

    @ParameterizedTest
    @ValueSource(strings = {"int4", "nvfp4"})
    void outputs_are_nearer_than_by_rounding_to_nearest_and_bytes_do_not_depend_on_threads(String name)
            throws IOException {
        Path statistics = TransformedCheckpointTest.statistics(LLAMA, folder);
        CheckpointOutcome outcome =
                quantize(recipe(name), statistics, "one", Job.defaults().withThreads(1));
        assertEquals("gptq", outcome.rounding());
        assertEquals(14, outcome.roundingErrors().size(), "seven Linears in each of two layers");
        double error = 0;
        double nearest = 0;
        for (RoundedError e : outcome.roundingErrors()) {
            assertTrue(e.nearestError() > 0, e.toString());
            error += e.error();
            nearest += e.nearestError();
        }
        assertTrue(error < 0.9 * nearest, error + " of " + nearest);
        CheckpointOutcome parallel =
                quantize(recipe(name), statistics, "two", Job.defaults().withThreads(2));
        assertEquals(outcome.roundingErrors(), parallel.roundingErrors());
        assertEquals(
                -1,
                Files.mismatch(
                        folder.resolve("one").resolve(FILE),
                        folder.resolve("two").resolve(FILE)));
        Quantize.CheckpointRequest plain =
                Quantize.CheckpointRequest.of(LLAMA, folder.resolve("nearest"), recipe(name));
        Quantize.run(name.equals("int4") ? plain : plain.withStatistics(statistics), Job.defaults());
        assertFalse(
                Files.mismatch(
                                folder.resolve("one").resolve(FILE),
                                folder.resolve("nearest").resolve(FILE))
                        < 0,
                "codes differ from those of rounding to nearest");
    }

    @Test
    void missing_moments_are_refused_with_the_command_that_makes_them() throws IOException {
        String command = "octet calibrate " + LLAMA + " -o FILE --data DATA --second-moments";
        OctetException without = assertThrows(
                OctetException.class,
                () -> Quantize.run(
                        Quantize.CheckpointRequest.of(LLAMA, folder.resolve("out"), recipe("int4"))
                                .withRounding(Quantize.WeightRounds.GPTQ),
                        Job.defaults()));
        assertTrue(without.fix().contains(command), without.fix());
        Path statistics = TransformedCheckpointTest.statistics(LLAMA, folder);
        Files.delete(folder.resolve("model.stats.moments"));
        OctetException gone =
                assertThrows(OctetException.class, () -> quantize(recipe("int4"), statistics, "out", Job.defaults()));
        assertTrue(gone.what().contains("model.stats.moments"), gone.what());
        assertTrue(gone.fix().contains(command), gone.fix());
        assertFalse(Files.exists(folder.resolve("out")));
    }

    @ParameterizedTest
    @ValueSource(strings = {"rotate", "rotate:random", "smoothquant", "awq"})
    void moments_are_transformed_with_the_model(String transform) throws IOException {
        Path statistics = TransformedCheckpointTest.statistics(LLAMA, folder);
        Quantize.CheckpointRequest once = Quantize.CheckpointRequest.of(LLAMA, folder.resolve("once"), recipe("int4"))
                .withStatistics(statistics)
                .withTransforms(List.of(Transform.parse(transform)));
        CheckpointOutcome outcome = Quantize.run(once.withRounding(Quantize.WeightRounds.GPTQ), Job.defaults());
        double error = 0;
        double nearest = 0;
        for (RoundedError e : outcome.roundingErrors()) {
            error += e.error();
            nearest += e.nearestError();
        }
        assertTrue(error < 0.9 * nearest, error + " of " + nearest);
        if (transform.equals("awq")) {
            return; // its factors follow from the recipe, so there are no floats of it
        }
        Path floats = folder.resolve("floats");
        Quantize.run(
                Quantize.CheckpointRequest.of(LLAMA, floats, recipe("int4"))
                        .withStatistics(statistics)
                        .withTransforms(List.of(Transform.parse(transform)))
                        .with(Quantize.Choice.FLOATS),
                Job.defaults());
        Path again = Files.createDirectory(folder.resolve("again"));
        Path calibrated = TransformedCheckpointTest.statistics(floats, again);
        CheckpointOutcome twice = Quantize.run(
                Quantize.CheckpointRequest.of(floats, folder.resolve("twice"), recipe("int4"))
                        .withStatistics(calibrated)
                        .withRounding(Quantize.WeightRounds.GPTQ),
                Job.defaults());
        assertEquals(twice.roundingErrors().size(), outcome.roundingErrors().size());
        for (int i = 0; i < twice.roundingErrors().size(); i++) {
            RoundedError expected = twice.roundingErrors().get(i);
            RoundedError actual = outcome.roundingErrors().get(i);
            assertEquals(expected.weight(), actual.weight());
            assertEquals(
                    expected.nearestError(), actual.nearestError(), 0.02 * expected.nearestError(), actual.weight());
            assertEquals(expected.error(), actual.error(), 0.1 * expected.error(), actual.weight());
        }
    }

    @Test
    void other_options_of_GPTQ_give_other_codes_and_none_is_worse_than_rounding_to_nearest() throws IOException {
        Path statistics = TransformedCheckpointTest.statistics(LLAMA, folder);
        Quantize.CheckpointRequest usual = Quantize.CheckpointRequest.of(LLAMA, folder.resolve("usual"), recipe("int4"))
                .withStatistics(statistics)
                .withRounding(Quantize.WeightRounds.GPTQ);
        Quantize.run(usual, Job.defaults());
        for (GptqOptions options : List.of(
                GptqOptions.defaults().withDamping(0.5), GptqOptions.defaults().withLargestFirst(false))) {
            Path out = folder.resolve("damping " + options.damping());
            CheckpointOutcome other = Quantize.run(
                    Quantize.CheckpointRequest.of(LLAMA, out, recipe("int4"))
                            .withStatistics(statistics)
                            .withRounding(Quantize.WeightRounds.GPTQ.with(options)),
                    Job.defaults());
            assertTrue(Files.mismatch(out.resolve(FILE), folder.resolve("usual").resolve(FILE)) >= 0);
            assertTrue(other.roundingErrors().stream().allMatch(e -> e.error() <= e.nearestError()));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"nearest", "gptq"})
    void a_dry_run_predicts_the_rounding_that_was_asked_for(String rounding) throws IOException {
        Path statistics = TransformedCheckpointTest.statistics(LLAMA, folder);
        Quantize.WeightRounds how =
                rounding.equals("gptq") ? Quantize.WeightRounds.GPTQ : Quantize.WeightRounds.NEAREST;
        CheckpointOutcome planned = Quantize.run(
                Quantize.CheckpointRequest.of(LLAMA, folder.resolve("none"), recipe("int4"))
                        .withStatistics(statistics)
                        .withRounding(how),
                Job.defaults().dry());
        CheckpointOutcome done = quantize(recipe("int4"), statistics, "out", Job.defaults());
        Schemes.Scheme predicted = requireNonNull(planned.predicted());
        assertEquals(rounding, predicted.rounding());
        Map<String, RoundedError> errors = new HashMap<>();
        done.roundingErrors().forEach(e -> errors.put(e.weight(), e));
        Path moments = folder.resolve("model.stats.moments");
        try (SecondMomentsFile file = SecondMomentsFile.open(moments);
                ModelFile model = ModelFile.open(LLAMA)) {
            for (Schemes.Layer layer : predicted.layers()) {
                RoundedError e = requireNonNull(errors.get(layer.weight()));
                double expected = rounding.equals("gptq") ? e.error() : e.nearestError();
                double signal = signal(
                        requireNonNull(model.model().tensor(layer.weight())),
                        file.read(layer.weight().replace(".weight", "")));
                assertEquals(10 * Math.log10(signal / expected), layer.weightDb(), 0.3, layer.weight());
            }
        }
    }

    private static double signal(Tensor weight, SecondMoment moment) {
        float[] all = weight.toFloats();
        List<float[]> rows = new ArrayList<>();
        for (int at = 0; at < all.length; at += moment.size()) {
            rows.add(Arrays.copyOfRange(all, at, at + moment.size()));
        }
        return Arrays.stream(moment.costs(rows)).sum();
    }
}
