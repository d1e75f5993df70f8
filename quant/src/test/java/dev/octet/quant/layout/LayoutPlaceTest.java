package dev.octet.quant.layout;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.scale.ScaleRule;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Names, types and shapes to the letter of what consumers look for, and which weights they cannot take. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class LayoutPlaceTest {
    private static final Shape SHAPE = Shape.of(256, 384);

    private static Layout layout(String name) {
        return Layouts.named(name).orElseThrow();
    }

    private static Recipe recipe(String name) {
        return Recipes.CHECKPOINT.stream()
                .filter(r -> r.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    private static OperandSpec scheme(String layout, String recipe, LayoutOptions options) {
        return layout(layout).scheme(recipe(recipe), options).orElseThrow();
    }

    private static LayoutOptions options(boolean staticInputs) {
        return new LayoutOptions(DType.F32, false, staticInputs);
    }

    private static String written(TensorSpec spec) {
        return spec.name() + " " + spec.dtype().safetensorsName().orElseThrow() + " " + spec.shape();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = ';',
            value = {
                "compressed-tensors; fp8;             false; m.weight F8_E4M3 [256, 384] | m.weight_scale F32 [1]",
                "compressed-tensors; fp8;             true;  m.weight F8_E4M3 [256, 384] | m.weight_scale F32 [1] |"
                        + " m.input_scale F32 [1]",
                "compressed-tensors; fp8-dynamic;     false; m.weight F8_E4M3 [256, 384] | m.weight_scale F32 [256, 1]",
                "compressed-tensors; fp8-dynamic;     true;  m.weight F8_E4M3 [256, 384] | m.weight_scale F32 [256, 1]"
                        + " | m.input_scale F32 [1]",
                "compressed-tensors; fp8-block;       false; m.weight F8_E4M3 [256, 384] | m.weight_scale F32 [2, 3]",
                "compressed-tensors; mxfp8;           false; m.weight F8_E4M3 [256, 384] | m.weight_scale U8 [256, 12]",
                "compressed-tensors; nvfp4;           false; m.weight_packed U8 [256, 192] | m.weight_scale F8_E4M3"
                        + " [256, 24] | m.weight_global_scale F32 [1]",
                "compressed-tensors; nvfp4;           true;  m.weight_packed U8 [256, 192] | m.weight_scale F8_E4M3"
                        + " [256, 24] | m.weight_global_scale F32 [1] | m.input_global_scale F32 [1]",
                "compressed-tensors; int8;            false; m.weight I8 [256, 384] | m.weight_scale F32 [256, 1]",
                "compressed-tensors; int8-asymmetric; false; m.weight_packed I32 [256, 96] | m.weight_scale F32"
                        + " [256, 1] | m.weight_zero_point I32 [64, 1] | m.weight_shape I64 [2]",
                "fp8;                fp8;             false; m.weight F8_E4M3 [256, 384] | m.weight_scale F32 [1]",
                "fp8;                fp8;             true;  m.weight F8_E4M3 [256, 384] | m.weight_scale F32 [1] |"
                        + " m.input_scale F32 [1]",
                "fp8;                fp8-block;       false; m.weight F8_E4M3 [256, 384] | m.weight_scale_inv F32 [2,"
                        + " 3]",
                "modelopt;           fp8;             true;  m.weight F8_E4M3 [256, 384] | m.weight_scale F32 [] |"
                        + " m.input_scale F32 []",
                "modelopt;           fp8-dynamic;     false; m.weight F8_E4M3 [256, 384] | m.weight_scale F32 [256]",
                "modelopt;           fp8-block;       false; m.weight F8_E4M3 [256, 384] | m.weight_scale F32 [2, 1,"
                        + " 3, 1]",
                "modelopt;           mxfp8;           false; m.weight F8_E4M3 [256, 384] | m.weight_scale U8 [256, 12]",
                "modelopt;           nvfp4;           true;  m.weight U8 [256, 192] | m.weight_scale F8_E4M3 [256, 24]"
                        + " | m.weight_scale_2 F32 [] | m.input_scale F32 []",
                "modelopt;           nvfp4;           false; m.weight U8 [256, 192] | m.weight_scale F8_E4M3 [256, 24]"
                        + " | m.weight_scale_2 F32 []",
            })
    void a_weight_lies_where_consumers_look_for_it(String layout, String recipe, boolean staticInputs, String tensors) {
        StoredWeight weight = layout(layout)
                .place("m.weight", SHAPE, scheme(layout, recipe, options(staticInputs)), options(staticInputs));

        assertEquals(
                tensors, weight.tensors().stream().map(LayoutPlaceTest::written).collect(Collectors.joining(" | ")));
        assertEquals(SHAPE, weight.shape());
    }

    @Test
    void the_second_level_divides_in_compressed_tensors_and_multiplies_in_modelopt() {
        StoredWeight divided = layout("compressed-tensors")
                .place("m.weight", SHAPE, scheme("compressed-tensors", "nvfp4", options(true)), options(true));
        StoredWeight multiplied =
                layout("modelopt").place("m.weight", SHAPE, scheme("modelopt", "nvfp4", options(true)), options(true));

        for (ScaleTensor scale : List.of(requireNonNull(divided.globalScale()), requireNonNull(divided.inputScale()))) {
            assertEquals(ScaleTensor.Direction.DIVISOR, scale.direction());
        }
        for (ScaleTensor scale :
                List.of(requireNonNull(multiplied.globalScale()), requireNonNull(multiplied.inputScale()))) {
            assertEquals(ScaleTensor.Direction.MULTIPLIER, scale.direction());
        }
    }

    @Test
    void overhanging_blocks_are_fine_for_compressed_tensors_only() {
        Shape odd = Shape.of(10944, 2000);
        OperandSpec scheme = scheme("compressed-tensors", "fp8-block", LayoutOptions.defaults());

        assertEquals(
                List.of(),
                layout("compressed-tensors").refusal(scheme, odd).stream().toList());
        assertEquals(
                Shape.of(86, 16),
                requireNonNull(layout("compressed-tensors")
                                .place("m.weight", odd, scheme, LayoutOptions.defaults())
                                .scale())
                        .spec()
                        .shape());
        for (String layout : List.of("fp8", "modelopt")) {
            assertTrue(layout(layout).refusal(scheme, odd).orElseThrow().contains("10944 x 2000"));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "compressed-tensors, mxfp8, 32",
        "compressed-tensors, nvfp4, 16",
        "modelopt, mxfp8, 32",
        "modelopt, nvfp4, 16",
        "fp8, fp8-block, 128",
        "modelopt, fp8-block, 128"
    })
    void inputs_must_fill_whole_blocks(String layout, String recipe, int block) {
        OperandSpec scheme = scheme(layout, recipe, LayoutOptions.defaults());

        for (int inputs = block - 1; inputs <= 2 * block + 1; inputs++) {
            assertEquals(
                    inputs % block != 0,
                    layout(layout).refusal(scheme, Shape.of(128, inputs)).isPresent(),
                    "inputs: " + inputs);
        }
    }

    @ParameterizedTest
    @CsvSource({"compressed-tensors, fp8-dynamic", "fp8, fp8-block", "modelopt, fp8-dynamic"})
    void vectors_and_empty_matrices_are_refused(String layout, String recipe) {
        OperandSpec scheme = scheme(layout, recipe, LayoutOptions.defaults());

        for (Shape shape : List.of(Shape.SCALAR, Shape.of(128), Shape.of(0, 128), Shape.of(128, 0))) {
            assertTrue(layout(layout).refusal(scheme, shape).isPresent(), shape::toString);
        }
    }

    @Test
    void fused_experts_have_a_place_in_the_layout_of_transformers_only() {
        Shape experts = Shape.of(8, 512, 256);
        OperandSpec blocks = scheme("fp8", "fp8-block", LayoutOptions.defaults());

        assertEquals(List.of(), layout("fp8").refusal(blocks, experts).stream().toList());
        assertEquals(
                "m.experts.gate_up_proj F8_E4M3 [8, 512, 256] | m.experts.gate_up_proj_scale_inv F32 [8, 4, 2]",
                layout("fp8")
                        .place("m.experts.gate_up_proj", experts, blocks, LayoutOptions.defaults())
                        .tensors()
                        .stream()
                        .map(LayoutPlaceTest::written)
                        .collect(Collectors.joining(" | ")));
        for (String layout : List.of("compressed-tensors", "modelopt")) {
            assertTrue(layout(layout).refusal(blocks, experts).orElseThrow().contains("expert"));
        }
        assertTrue(layout("fp8")
                .refusal(scheme("fp8", "fp8", LayoutOptions.defaults()), experts)
                .isPresent());
    }

    @Test
    void each_tool_has_its_own_exponent_of_mx_blocks() {
        assertEquals(
                new ScaleRule.MxRule(ScaleRule.Exponent.COMPRESSED_TENSORS),
                scheme("compressed-tensors", "mxfp8", LayoutOptions.defaults()).rule());
        assertEquals(
                new ScaleRule.MxRule(ScaleRule.Exponent.CEIL),
                scheme("modelopt", "mxfp8", LayoutOptions.defaults()).rule());
    }

    @Test
    void powers_of_two_stay_f32_and_are_rounded_up() {
        OperandSpec scheme = scheme("fp8", "fp8-block", new LayoutOptions(DType.F32, true, false));

        assertEquals(new ScaleRule.PowerOfTwoRule(ScaleRule.Rounding.UP), scheme.rule());
        assertEquals(DType.F32, scheme.scaleType());
    }

    @ParameterizedTest
    @CsvSource({
        "modelopt, fp8, F32, false, false, statistics",
        "modelopt, int8, F32, false, false, compressed-tensors",
        "modelopt, fp8-dynamic, BF16, false, false, F32",
        "fp8, fp8-dynamic, F32, false, false, compressed-tensors",
        "fp8, mxfp8, F32, false, false, compressed-tensors",
        "fp8, fp8-weight-only, F32, false, false, compressed-tensors",
        "modelopt, fp8-weight-only, F32, false, false, compressed-tensors",
        "compressed-tensors, fp8-weight-only, F32, false, true, statistics",
        "fp8, fp8-block, F16, false, false, F32",
        "fp8, fp8-block, F32, false, true, statistics",
        "compressed-tensors, mxfp8, F32, false, true, statistics",
        "compressed-tensors, int8-asymmetric, F32, false, true, statistics",
        "compressed-tensors, fp8-dynamic, F32, true, false, fp8-block",
        "compressed-tensors, fp8-dynamic, F64, false, false, F64",
    })
    void what_cannot_be_said_has_a_reason_that_names_the_way_out(
            String layout, String recipe, DType scales, boolean powers, boolean inputs, String word) {
        LayoutOptions options = new LayoutOptions(scales, powers, inputs);

        assertTrue(layout(layout)
                .unsupported(recipe(recipe), options)
                .orElseThrow()
                .contains(word));
    }

    @Test
    void recipes_for_training_do_not_say_how_weights_are_stored() {
        for (Layout layout : Layouts.ALL) {
            assertTrue(layout.scheme(TrainingRecipe.CurrentScaling.DEFAULT, LayoutOptions.defaults())
                    .isEmpty());
        }
    }
}
