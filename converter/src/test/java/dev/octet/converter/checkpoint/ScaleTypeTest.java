package dev.octet.converter.checkpoint;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.CheckpointConverter;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** The number type of stored scales where none is asked for: what the readers of a layout want of a model. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ScaleTypeTest {
    private static final String Q = "model.layers.0.self_attn.q_proj.weight";

    @TempDir
    Path folder;

    private Path model(String config) throws IOException {
        Path source = folder.resolve("source");
        MadeCheckpoint.small(source).write();
        Files.writeString(source.resolve("config.json"), config);
        return source;
    }

    private DType scaleType(Path source, ConversionRequest goal) throws IOException {
        Path out = folder.resolve("out");
        MadeCheckpoint.run(source, goal, out);
        try (CheckpointConverter read = CheckpointConverter.open(out)) {
            return requireNonNull(requireNonNull(read.stored().weights().get(Q)).scale())
                    .number();
        }
    }

    @ParameterizedTest
    @CsvSource({
        "compressed-tensors, dtype, bfloat16, BF16",
        "compressed-tensors, torch_dtype, bfloat16, BF16",
        "compressed-tensors, dtype, float16, F16",
        "compressed-tensors, dtype, float32, F32",
        "compressed-tensors, dtype, odd, F32",
        "fp8, dtype, bfloat16, F32",
        "modelopt, dtype, bfloat16, F32",
    })
    void scales_are_of_the_models_type_where_transformers_gives_it_to_weights(
            String target, String key, String type, DType expected) throws IOException {
        Path source = model("{\"" + key + "\": \"" + type + "\"}");
        assertEquals(expected, scaleType(source, MadeCheckpoint.goal(Recipes.FP8_BLOCK, target)));
    }

    @Test
    void a_type_that_is_asked_for_counts() throws IOException {
        Path source = model("{\"dtype\": \"bfloat16\"}");
        ConversionRequest goal = new ConversionRequest.Quantize(
                Recipes.FP8_DYNAMIC,
                MadeCheckpoint.layout("compressed-tensors"),
                new LayoutOptions(DType.F32, false, false));
        assertEquals(DType.F32, scaleType(source, goal));
    }

    private static Stream<Recipe> recipes() {
        return Stream.of(
                Recipes.FP8_DYNAMIC, Recipes.CHECKPOINT_FP8, Recipes.FP8_BLOCK, Recipes.INT8, Recipes.INT8_ASYMMETRIC);
    }

    /** With a scale rounded after its use the largest codes would be off by up to half a step of integers, and E4M3 would saturate. */
    @ParameterizedTest
    @MethodSource("recipes")
    void values_are_quantised_with_the_scale_as_it_is_stored(Recipe recipe) throws IOException {
        Path source = model("{\"dtype\": \"bfloat16\"}");
        Path out = folder.resolve("out");
        MadeCheckpoint.run(source, MadeCheckpoint.goal(recipe, "compressed-tensors"), out);
        try (CheckpointConverter before = CheckpointConverter.open(source);
                CheckpointConverter after = CheckpointConverter.open(out)) {
            float[] x = MadeCheckpoint.values(before, Q);
            float[] y = MadeCheckpoint.values(after, Q);
            boolean integers = recipe.weight().type().isInteger();
            float step = MadeCheckpoint.floats(out, Q + "_scale")[0];
            int off = 0;
            for (int i = 0; i < 128; i++) { // the first row, or the first row of the first block
                double most = integers ? 0.5 * step : Math.abs(x[i]) / 16 + step * 0x1p-10;
                off += Math.abs(x[i] - y[i]) > most * 1.0001 ? 1 : 0;
            }
            // the value with the largest magnitude alone may be cut, where its scale was rounded down
            assertTrue(off <= 1, off + " values are more than half a step off");
        }
    }

    @Test
    void scales_do_not_depend_on_the_number_of_threads() throws IOException {
        Path source = model("{\"dtype\": \"bfloat16\"}");
        ConversionRequest goal = MadeCheckpoint.goal(Recipes.INT8_ASYMMETRIC, "compressed-tensors");
        Path one = folder.resolve("one");
        Path many = folder.resolve("many");
        MadeCheckpoint.run(source, goal, CheckpointConverter.Request.all(), one, MadeCheckpoint.threads(1));
        MadeCheckpoint.run(source, goal, CheckpointConverter.Request.all(), many, MadeCheckpoint.threads(7));
        assertEquals(MadeCheckpoint.sums(one), MadeCheckpoint.sums(many));
    }
}
