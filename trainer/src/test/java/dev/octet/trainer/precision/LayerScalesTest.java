package dev.octet.trainer.precision;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.TrainingRecipe;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LayerScalesTest {
    private static final String INPUT = "fp8.linear.input";

    private static Fp8Layer layer(TrainingRecipe recipe) {
        return new Fp8Layer("linear", "x", "w", "linear", recipe, Map.of(), false);
    }

    private static Tensor numbers(float... values) {
        return Tensor.ofFloats(Arena.ofAuto(), "t", Shape.of(values.length), values);
    }

    @Test
    void delayed_scales_are_those_of_the_state_and_multiply_on_the_way_in() {
        LayerScales scales = LayerScales.of(
                layer(TrainingRecipe.DelayedScaling.DEFAULT),
                Map.of(
                        INPUT + ".quant_scale",
                        numbers(32),
                        INPUT + ".amax_history",
                        numbers(0, 7, 14, 3.5f),
                        "fp8.w.weight.quant_scale",
                        numbers(256),
                        "fp8.w.weight.amax_history",
                        numbers(0, 0, 0, 1.75f)),
                Map.of("w", numbers(1, -1.75f)));
        TensorScale input = requireNonNull(scales.input());
        assertEquals(32, input.quantScale());
        assertEquals(1 / 32f, input.scale());
        assertEquals(14, input.amax());
        assertEquals(List.of(0f, 7f, 14f, 3.5f), input.history());
        assertEquals(256, requireNonNull(scales.weight()).quantScale());
        assertEquals("", scales.reason());
    }

    @Test
    void current_scales_follow_from_what_was_seen_last_and_from_the_weight() {
        LayerScales scales = LayerScales.of(
                layer(TrainingRecipe.CurrentScaling.DEFAULT),
                Map.of(INPUT + ".amax", numbers(3.5f)),
                Map.of("w", numbers(1, -7)));
        assertEquals(128, requireNonNull(scales.input()).quantScale());
        assertEquals(64, requireNonNull(scales.weight()).quantScale());
        assertNull(scales.gradOutput());
    }

    @Test
    void an_input_never_seen_has_no_scale_and_blocks_have_none_to_keep() {
        Map<String, Tensor> parameters = Map.of("w", numbers(1));
        LayerScales unseen = LayerScales.of(
                layer(TrainingRecipe.DelayedScaling.DEFAULT),
                Map.of(INPUT + ".quant_scale", numbers(1), INPUT + ".amax_history", numbers(0, 0)),
                parameters);
        assertNull(unseen.input());
        assertEquals("the run saw no input of it", unseen.reason());
        LayerScales blocks = LayerScales.of(layer(TrainingRecipe.BlockScaling.DEFAULT), Map.of(), parameters);
        assertNull(blocks.weight());
        assertEquals("the run found scales of its input for each block", blocks.reason());
    }
}
