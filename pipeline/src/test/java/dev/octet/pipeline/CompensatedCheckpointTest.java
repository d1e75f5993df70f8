package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.checkpoint.RoundedError;
import dev.octet.formats.error.OctetException;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.transform.Transform;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
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
                        .with(Quantize.Choice.GPTQ),
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
                                .with(Quantize.Choice.GPTQ),
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

    @Test
    void moments_of_the_inputs_before_a_transform_are_refused() throws IOException {
        Path statistics = TransformedCheckpointTest.statistics(LLAMA, folder);
        OctetException e = assertThrows(
                OctetException.class,
                () -> Quantize.run(
                        Quantize.CheckpointRequest.of(LLAMA, folder.resolve("out"), Recipes.NVFP4)
                                .withStatistics(statistics)
                                .withTransforms(List.of(Transform.parse("rotate")))
                                .with(Quantize.Choice.GPTQ),
                        Job.defaults()));
        assertTrue(e.what().contains("--transform"), e.what());
        assertFalse(Files.exists(folder.resolve("out")));
    }
}
