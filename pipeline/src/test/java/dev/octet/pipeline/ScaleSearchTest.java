package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.compare.CompareOptions;
import dev.octet.converter.compare.TensorComparison;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.error.OctetException;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.scale.ScaleSearch;
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
import org.junit.jupiter.params.provider.CsvSource;

/** Searched scales of the weights of checkpoints. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ScaleSearchTest {
    private static final Path LLAMA =
            Path.of(System.getProperty("octet.testdata"), "models/tiny-hf").resolve("llama");
    private static final String FILE = "model.safetensors";

    @TempDir
    Path folder;

    private static Recipe recipe(String name) {
        Recipe recipe = Recipes.byName(Recipes.CHECKPOINT).get(name);
        return recipe.isGrouped() ? recipe.withGroups(new Granularity.PerGroup(-1, 32)) : recipe;
    }

    private Quantize.CheckpointRequest request(String recipe, ScaleSearch search, String out) {
        return Quantize.CheckpointRequest.of(LLAMA, folder.resolve(out), recipe(recipe))
                .withRounding(Quantize.WeightRounds.NEAREST.with(search));
    }

    private double sqnrDb(String out) throws IOException {
        return TensorComparison.compare(LLAMA, folder.resolve(out), CompareOptions.defaults())
                .summary()
                .sqnrDb();
    }

    @ParameterizedTest
    @CsvSource({
        "nvfp4, MSE, true",
        "nvfp4, FOUR_OVER_SIX, true",
        "int4, MSE, true",
        "int4-asymmetric, MSE, true",
        "fp8-dynamic, MSE, true",
        "mxfp8, MSE, false",
        "int8-asymmetric, MSE, false"
    })
    void weights_lose_less_and_the_file_is_one_that_its_readers_take(String recipe, ScaleSearch search, boolean less)
            throws IOException {
        Quantize.run(request(recipe, ScaleSearch.AMAX, "usual"), Job.defaults());
        CheckpointOutcome outcome =
                Quantize.run(request(recipe, search, "one"), Job.defaults().withThreads(1));
        assertEquals(search.label(), outcome.scaleSearch());
        Quantize.run(request(recipe, search, "two"), Job.defaults().withThreads(2));
        assertEquals(
                -1,
                Files.mismatch(
                        folder.resolve("one").resolve(FILE),
                        folder.resolve("two").resolve(FILE)));
        assertTrue(
                Verifier.verify(folder.resolve("one"), VerifyOptions.defaults()).passed());
        double usual = sqnrDb("usual");
        assertTrue(less ? sqnrDb("one") > usual : sqnrDb("one") >= usual, sqnrDb("one") + " and " + usual + " dB");
    }

    @Test
    void scales_by_second_moments_are_refused_without_them_and_differ_from_those_of_equal_weights() throws IOException {
        OctetException without = assertThrows(
                OctetException.class, () -> Quantize.run(request("int4", ScaleSearch.HESSIAN, "none"), Job.defaults()));
        assertTrue(without.what().startsWith("--scale-search hessian needs second moments"), without.what());
        assertFalse(Files.exists(folder.resolve("none")));
        Path statistics = TransformedCheckpointTest.statistics(LLAMA, folder);
        Quantize.run(request("int4", ScaleSearch.HESSIAN, "weighted").withStatistics(statistics), Job.defaults());
        Quantize.run(request("int4", ScaleSearch.MSE, "equal"), Job.defaults());
        assertTrue(Files.mismatch(
                        folder.resolve("weighted").resolve(FILE),
                        folder.resolve("equal").resolve(FILE))
                >= 0);
        assertTrue(sqnrDb("weighted") < sqnrDb("equal"), "the weights themselves lose more, the outputs less");
    }

    @Test
    void a_search_goes_with_transforms_and_GPTQ() throws IOException {
        Path statistics = TransformedCheckpointTest.statistics(LLAMA, folder);
        for (String transform : List.of("rotate", "smoothquant", "awq")) {
            CheckpointOutcome outcome = Quantize.run(
                    Quantize.CheckpointRequest.of(LLAMA, folder.resolve(transform), recipe("int4"))
                            .withStatistics(statistics)
                            .withTransforms(List.of(Transform.parse(transform)))
                            .withRounding(Quantize.WeightRounds.GPTQ.with(ScaleSearch.HESSIAN)),
                    Job.defaults());
            assertEquals("hessian", outcome.scaleSearch());
            assertEquals(14, outcome.roundingErrors().size());
            assertTrue(Verifier.verify(folder.resolve(transform), VerifyOptions.defaults())
                    .passed());
        }
    }

    @ParameterizedTest
    @CsvSource({
        "fp8, MSE, one scale for all of a weight",
        "int4, FOUR_OVER_SIX, for blocks of nvfp4",
        "fp8-dynamic, FOUR_OVER_SIX, for blocks of nvfp4"
    })
    void a_search_that_a_recipe_has_no_use_for_is_refused(String recipe, ScaleSearch search, String why) {
        OctetException e =
                assertThrows(OctetException.class, () -> Quantize.run(request(recipe, search, "out"), Job.defaults()));
        assertTrue(e.what().contains(why), e.what());
        assertFalse(Files.exists(folder.resolve("out")));
    }
}
