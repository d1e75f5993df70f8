package dev.octet.pipeline;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Batch;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.verify.Verification;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.transform.Transform;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A transformed model computes what the model did. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TransformedCheckpointTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");

    @TempDir
    Path folder;

    @ParameterizedTest
    @CsvSource({
        "llama, rotate",
        "llama3, rotate",
        "llama-linear, rotate:random",
        "mistral, rotate",
        "qwen2, rotate",
        "qwen2-window, rotate:random",
        "qwen3, rotate",
        "gemma, rotate"
    })
    void a_rotated_model_in_floats_has_the_logits_of_the_original(String name, String transform) throws IOException {
        Path out = folder.resolve("rotated");
        CheckpointOutcome outcome = Quantize.run(
                Quantize.CheckpointRequest.of(MODELS.resolve(name), out, Recipes.NVFP4)
                        .withTransforms(List.of(Transform.parse(transform)))
                        .with(Quantize.Choice.FLOATS),
                Job.defaults());
        CheckpointOutcome.Transformed transformed = outcome.transformed();
        assertNotNull(transformed);
        assertTrue(transformed.folds().stream().anyMatch(f -> f.how().contains("R2")), transformed.toString());
        assertClose(logits(MODELS.resolve(name), name), logits(out, name));
    }

    @ParameterizedTest
    @CsvSource({
        "gpt2, LayerNorm subtracts the mean",
        "bert, LayerNorm subtracts the mean",
        "gemma2, lies between a Linear and the residual",
        "vit, no residual stream",
    })
    void a_model_that_no_rotation_commutes_with_is_refused_by_name(String name, String why) {
        UnsupportedModelException e = assertThrows(
                UnsupportedModelException.class,
                () -> Quantize.run(
                        Quantize.CheckpointRequest.of(MODELS.resolve(name), folder.resolve("out"), Recipes.FP8_DYNAMIC)
                                .withTransforms(List.of(Transform.parse("rotate"))),
                        Job.defaults()));
        assertTrue(e.what().contains(why), e.what());
        assertTrue(e.where().contains(name), e.where());
    }

    @Test
    void factors_from_statistics_are_refused_without_them() {
        OctetException e = assertThrows(
                OctetException.class,
                () -> Quantize.run(
                        Quantize.CheckpointRequest.of(
                                        MODELS.resolve("llama"), folder.resolve("out"), Recipes.FP8_DYNAMIC)
                                .withTransforms(List.of(Transform.parse("smoothquant"))),
                        Job.defaults()));
        assertEquals("--transform smoothquant:0.5 needs statistics of the Linears' inputs", e.what());
    }

    @ParameterizedTest
    @CsvSource({
        "llama, smoothquant", "llama-linear, smoothquant:0.9", "mistral, smoothquant", "qwen2, smoothquant",
        "qwen3, smoothquant", "gemma, smoothquant:0.3", "gemma2, smoothquant", "gpt2, smoothquant:1",
        "llama, awq", "llama3, awq-duo", "qwen2, awq-duo", "gemma, awq"
    })
    void a_model_with_factors_in_its_norms_has_the_logits_of_the_original(String name, String transform)
            throws IOException {
        Path model = MODELS.resolve(name);
        Path out = folder.resolve("smooth");
        Quantize.run(
                Quantize.CheckpointRequest.of(model, out, Recipes.NVFP4)
                        .withStatistics(statistics(model, folder))
                        .withTransforms(List.of(Transform.parse(transform)))
                        .with(Quantize.Choice.FLOATS),
                Job.defaults());
        assertClose(logits(model, name), logits(out, name));
    }

    @ParameterizedTest
    @CsvSource({
        "smoothquant, rotate, only the rotation would be left",
        "awq, rotate, only the rotation would be left",
        "rotate, smoothquant, the first of rotate:hadamard and smoothquant:0.5 changes it"
    })
    void two_transforms_at_once_are_refused_with_the_reason(String first, String second, String why)
            throws IOException {
        OctetException e = assertThrows(
                OctetException.class,
                () -> Quantize.run(
                        Quantize.CheckpointRequest.of(MODELS.resolve("llama"), folder.resolve("out"), Recipes.NVFP4)
                                .withStatistics(statistics(MODELS.resolve("llama"), folder))
                                .withTransforms(List.of(Transform.parse(first), Transform.parse(second))),
                        Job.defaults()));
        assertTrue(e.what().contains(why), e.what());
        assertTrue(e.fix().contains("--recipe none"), e.fix());
    }

    @ParameterizedTest
    @CsvSource({"smoothquant, fp8-dynamic", "awq, int4", "awq-duo, nvfp4", "rotate, fp8-block"})
    void what_a_transform_leaves_is_a_checkpoint_that_readers_take(String transform, String recipe) throws IOException {
        Path model = MODELS.resolve("llama");
        Path out = folder.resolve("out");
        Recipe chosen = requireNonNull(Recipes.byName(Recipes.CHECKPOINT).get(recipe))
                .withGroups(new Granularity.PerGroup(-1, 32));
        Quantize.CheckpointRequest request =
                Quantize.CheckpointRequest.of(model, out, chosen).withTransforms(List.of(Transform.parse(transform)));
        Quantize.run(
                transform.equals("rotate") ? request : request.withStatistics(statistics(model, folder)),
                Job.defaults());
        Verification verified = Verifier.verify(out, VerifyOptions.defaults());
        assertTrue(verified.passed(), verified.findings().toString());
    }

    @Test
    void awq_leaves_the_head_as_it_is_for_it_stays_in_floats() throws IOException {
        Path model = MODELS.resolve("llama");
        CheckpointOutcome outcome = Quantize.run(
                Quantize.CheckpointRequest.of(model, folder.resolve("out"), Recipes.NVFP4)
                        .withStatistics(statistics(model, folder))
                        .withTransforms(List.of(Transform.parse("awq"))),
                Job.defaults());
        Map<String, List<String>> steps = requireNonNull(outcome.transformed()).steps();
        assertTrue(
                steps.containsKey("model.layers.0.mlp.up_proj.weight"),
                steps.keySet().toString());
        assertFalse(steps.containsKey("lm_head.weight"), steps.keySet().toString());
    }

    /** Statistics and second moments of a tiny decoder over random tokens. */
    static Path statistics(Path model, Path folder) throws IOException {
        Path samples = folder.resolve("samples.npz");
        Path file = folder.resolve("model.stats");
        SplittableRandom random = new SplittableRandom(3);
        try (Arena arena = Arena.ofConfined();
                NpzWriter npz = NpzWriter.stored(samples)) {
            long[] ids = random.longs(8L * 16, 5, 37).toArray();
            long[] ones = new long[ids.length];
            Arrays.fill(ones, 1);
            npz.add(Tensor.ofLongs(arena, "input_ids", Shape.of(8, 16), ids));
            npz.add(Tensor.ofLongs(arena, "attention_mask", Shape.of(8, 16), ones));
            npz.commit();
        }
        Calibrate.run(
                Calibrate.Request.of(model, file, SampleSource.of(samples)).with(Calibrate.Choice.SECOND_MOMENTS),
                Job.defaults());
        return file;
    }

    private static float[] logits(Path model, String golden) throws IOException {
        try (ModelSource source = ModelSource.open(model);
                OnnxRuntimeSession session = source.load(1);
                ModelFile inputs = ModelFile.open(MODELS.resolve(golden).resolve("golden.safetensors"))) {
            Map<String, Tensor> batch = new LinkedHashMap<>();
            for (String in : session.inputs()) {
                batch.put(in, Objects.requireNonNull(inputs.model().tensor("in." + in)));
            }
            int size = Math.toIntExact(batch.values().iterator().next().shape().dim(0));
            try (OnnxRuntimeSession.Outputs out = session.run(new Batch(0, size, batch))) {
                return out.read("logits").toFloats().clone();
            }
        }
    }

    /** The largest difference is 1e-5 of the largest logit at most. */
    private static void assertClose(float[] expected, float[] actual) {
        assertEquals(expected.length, actual.length);
        double largest = 0;
        double off = 0;
        for (int i = 0; i < expected.length; i++) {
            largest = Math.max(largest, Math.abs(expected[i]));
            off = Math.max(off, Math.abs(expected[i] - actual[i]));
        }
        assertTrue(off <= 1e-5 * largest, off / largest + " of the largest logit, " + largest);
    }
}
