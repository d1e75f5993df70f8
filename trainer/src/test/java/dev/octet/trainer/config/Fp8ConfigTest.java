package dev.octet.trainer.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.recipe.FormatPair;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.recipe.TrainingRecipe.BackwardOverride;
import dev.octet.quant.recipe.TrainingRecipe.BlockScaling;
import dev.octet.quant.recipe.TrainingRecipe.CurrentScaling;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.quant.recipe.TrainingRecipe.Mxfp8;
import dev.octet.quant.recipe.TrainingRecipe.Qat;
import dev.octet.quant.recipe.TrainingRecipe.Rowwise;
import dev.octet.quant.recipe.TrainingRecipe.RowwiseWithGwHp;
import dev.octet.quant.recipe.TrainingRecipe.Tensorwise;
import dev.octet.quant.scale.AmaxHistory.Algorithm;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.Fp8Settings.LayerOverride;
import dev.octet.trainer.precision.LayerFilter;
import dev.octet.trainer.precision.LossScaling;
import dev.octet.trainer.precision.OperandChange;
import dev.octet.trainer.yaml.YamlFile;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class Fp8ConfigTest {
    private static PrecisionConfig parse(String precision) {
        return YamlFile.parse("precision: {mode: fp8" + precision + "}", "c.yaml")
                .section("precision")
                .read(s -> PrecisionConfig.read(s, Path.of("")));
    }

    private static Fp8Settings settings(String precision) {
        return ((Fp8Policy) parse(precision).policy()).settings();
    }

    private static InvalidOptionException refused(String precision) {
        return assertThrows(InvalidOptionException.class, () -> parse(precision));
    }

    @Test
    void without_further_keys_it_is_delayed_scaling_around_bf16() {
        PrecisionConfig config = parse("");
        Fp8Policy policy = (Fp8Policy) config.policy();
        assertEquals(DelayedScaling.DEFAULT, policy.settings().recipe());
        assertEquals(DType.BF16, policy.low());
        assertEquals("fp8 delayed, bf16", policy.name());
        assertEquals(LossScaling.Fixed.NONE, config.scaling());
        assertEquals(List.of(), config.notes());
    }

    @Test
    void every_recipe_has_its_librarys_defaults() {
        assertEquals(CurrentScaling.DEFAULT, settings(", recipe: current").recipe());
        assertEquals(BlockScaling.DEFAULT, settings(", recipe: block").recipe());
        assertEquals(Mxfp8.DEFAULT, settings(", recipe: mxfp8").recipe());
        assertEquals(Tensorwise.DEFAULT, settings(", recipe: tensorwise").recipe());
        assertEquals(new Rowwise(), settings(", recipe: rowwise").recipe());
        assertEquals(
                new RowwiseWithGwHp(), settings(", recipe: rowwise_with_gw_hp").recipe());
        assertEquals(Qat.DEFAULT, settings(", recipe: qat").recipe());
    }

    @Test
    void every_recipe_is_read_under_its_name() {
        for (String name : Recipes.TRAINING.keySet()) {
            assertEquals(name, settings(", recipe: " + name).recipe().name());
        }
    }

    @Test
    void a_run_of_deployed_goes_on_as_qat() {
        PrecisionConfig before = parse(", recipe: deployed, amax_history_len: 16");
        PrecisionConfig after = parse(", recipe: qat, amax_history_len: 16");
        assertEquals("fp8 deployed, bf16", before.policy().name());
        assertEquals("fp8 qat, bf16", after.policy().name());
        assertEquals("16", Settings.of(before).get("policy.settings.recipe.amax_history_length"));
        assertEquals(Settings.of(before), Settings.of(after));
    }

    @Test
    void the_keys_of_delayed_scaling_are_read() {
        Fp8Settings s = settings(
                ", recipe: delayed, fp8_format: E4M3, margin: 2, amax_history_len: 16, amax_compute_algo: most_recent,"
                        + " fused_update: false, reduce_amax: false, override_linear_precision: [False, False, True]");
        assertEquals(new DelayedScaling(2, FormatPair.E4M3, 16, Algorithm.MOST_RECENT, false, false, true), s.recipe());
    }

    @Test
    void the_keys_of_other_recipes_are_read() {
        assertEquals(
                new CurrentScaling(true, FormatPair.E4M3, 0.5f, BackwardOverride.HIGH_PRECISION),
                settings(", recipe: current, use_power_2_scales: true, fp8_format: E4M3, amax_epsilon: 0.5,"
                                + " backward_override: high_precision")
                        .recipe());
        assertEquals(
                new BlockScaling(true, FormatPair.E4M3, 0, 1, 1, 1, BackwardOverride.DEQUANTIZED),
                settings(", recipe: block, use_f32_scales: true, w_block_scaling_dim: 1, backward_override:"
                                + " dequantized")
                        .recipe());
    }

    @Test
    void sums_of_FP8_units_are_those_of_recipes_with_one_scale_for_each() {
        assertTrue(settings(", accumulation: hopper").likeHopper());
        assertTrue(settings(", recipe: rowwise, accumulation: hopper").likeHopper());
        assertTrue(!settings(", accumulation: f32").likeHopper());
        for (String recipe : List.of("block", "mxfp8")) {
            assertEquals(
                    "the sums of an FP8 unit are known for recipes with one scale for each of them, not for " + recipe,
                    refused(", recipe: " + recipe + ", accumulation: hopper").what());
        }
    }

    @Test
    void settings_of_layers_are_read() {
        Fp8Settings s = settings(", fake_quantize: true, exempt_first: true, exempt_last: true, filter: multiple_of_16,"
                + " high_precision: [wgrad], fused_norm: false, layers: [{match: head, fp8: false},"
                + " {match: 'mlp.*', recipe: current, high_precision: [dgrad, wgrad], fake_quantize: false}]");
        assertTrue(s.fakeQuantize() && s.exemptFirst() && s.exemptLast() && !s.fusedNorm());
        assertEquals(LayerFilter.MULTIPLE_OF_16, s.filter());
        assertEquals(Set.of(Product.WGRAD), s.highPrecision());
        LayerOverride head = s.overrides().get(0);
        assertEquals("head", head.layers().pattern());
        assertTrue(!head.fp8());
        LayerOverride mlp = s.overrides().get(1);
        assertEquals(CurrentScaling.DEFAULT, mlp.recipe());
        assertEquals(Set.of(Product.DGRAD, Product.WGRAD), mlp.highPrecision());
        assertEquals(false, mlp.fakeQuantize());
    }

    @Test
    void single_operands_are_read() {
        Fp8Settings s = settings(", high_precision: [wgrad, fprop.input], current: [dgrad.grad_output],"
                + " layers: [{match: head, current: [fprop]}, {match: mlp, fake_quantize: true}]");
        assertEquals(Set.of(Product.WGRAD), s.highPrecision());
        Map<ProductOperand, OperandChange> all = Map.of(
                ProductOperand.parse("fprop.input"),
                new OperandChange.Unquantised(),
                ProductOperand.parse("dgrad.grad_output"),
                new OperandChange.Current());
        assertEquals(all, s.operands());
        assertEquals(
                Map.of(
                        ProductOperand.parse("fprop.input"),
                        new OperandChange.Current(),
                        ProductOperand.parse("fprop.weight"),
                        new OperandChange.Current()),
                s.overrides().get(0).operands());
        assertEquals(all, s.overrides().get(1).operands());
    }

    @Test
    void single_operands_are_part_of_what_a_resumed_run_is_compared_by() {
        Map<String, String> settings = Settings.of(parse(", high_precision: [fprop.input], current: [dgrad.weight]"));
        assertEquals("unquantised", settings.get("policy.settings.operands.fprop.input"));
        assertEquals("current", settings.get("policy.settings.operands.dgrad.weight"));
        assertTrue(Settings.of(parse("")).keySet().stream().noneMatch(k -> k.contains("operands")));
    }

    @Test
    void an_interval_is_taken_and_said_to_have_no_effect() {
        PrecisionConfig config = parse(", interval: 4");
        assertEquals(1, config.notes().size());
        assertTrue(config.notes().getFirst().startsWith("precision.interval = 4 has no effect"));
    }

    @Test
    void fp16_around_fp8_scales_the_loss() {
        assertEquals(LossScaling.GradScaler.DEFAULT, parse(", base: fp16").scaling());
        assertEquals(DType.F32, parse(", base: fp32").policy().low());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
        , recipe: delay                                  | unknown value 'delay'
        , recipe: current, margin: 1                     | unknown key 'precision.margin'
        , recipe: mxfp8, interval: 1                     | unknown key 'precision.interval'
        , amax_historylen: 3                             | unknown key 'precision.amax_historylen'
        , amax_history_len: 0                            | 0 is out of range
        , fp8_format: E5M2                               | E5M2 in both directions does not train
        , override_linear_precision: [true, false, true] | [true, false, true] is not supported by delayed scaling
        , backward_override: dequantized                 | unknown key 'precision.backward_override'
        , fp8_dpa: true                                  | unknown key 'precision.fp8_dpa'
        , high_precision: [fprop, dgrad, wgrad]          | no product is left in FP8
        , high_precision: [sgrad]                        | unknown product 'sgrad'
        , high_precision: [fprop.grad_output]            | unknown product 'fprop.grad_output'
        , recipe: current, current: [dgrad]              | recipe current has no delayed scale that current scaling could replace
        , high_precision: [dgrad], current: [dgrad.weight] | dgrad.weight is in high_precision, too
        , layers: [{match: a, fp8: false, current: [dgrad]}] | a layer without FP8 has no recipe
        , recipe: block, x_block_scaling_dim: 2          | two operands of one product cannot both have square blocks
        , layers: [{match: a, fp8: false, recipe: current}] | a layer without FP8 has no recipe
        , layers: [{fp8: false}]                         | the key match is missing
        , base: fp8                            | unknown value 'fp8'
        """)
    void contradictions_and_unknown_keys_are_refused(String precision, String what) {
        assertEquals(what, refused(precision).what());
    }

    @ParameterizedTest
    @CsvSource({"float16, fp16", "half, fp16", "torch.bfloat16, bf16", "f32, fp32", "float32, fp32"})
    void float_types_are_known_in_the_spellings_of_other_tools(String typed, String mode) {
        PrecisionConfig config = YamlFile.parse("precision: {mode: " + typed + "}", "c.yaml")
                .section("precision")
                .read(s -> PrecisionConfig.read(s, Path.of("")));
        assertEquals(mode, config.mode());
        assertEquals(mode, config.policy().name());
        assertEquals("fp8 delayed, " + mode, parse(", base: " + typed).policy().name());
    }

    @Test
    void keys_of_fp8_are_refused_in_other_modes() {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> YamlFile.parse("precision: {mode: bf16, recipe: delayed}", "c.yaml")
                        .section("precision")
                        .read(s -> PrecisionConfig.read(s, Path.of(""))));
        assertEquals("mode bf16 has no recipe", e.what());
    }
}
