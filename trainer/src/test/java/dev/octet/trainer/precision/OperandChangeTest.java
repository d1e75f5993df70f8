package dev.octet.trainer.precision;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.block.Granularity.PerTensor;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.FormatPair;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.recipe.TrainingRecipe.CurrentScaling;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.quant.scale.AmaxHistory.Algorithm;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OperandChangeTest {
    private static final int ROWS = 16;
    private static final int IN = 32;
    private static final int OUT = 48;
    private static final String LAYER = "layer";
    private static final DelayedScaling DELAYED =
            new DelayedScaling(0, FormatPair.HYBRID, 4, Algorithm.MAX, true, true, false);
    private static final OperandChange UNQUANTISED = new OperandChange.Unquantised();
    private static final OperandChange CURRENT = new OperandChange.Current();
    private static final OperandChange FAKE = new OperandChange.Fake(new OperandSpec(
            QuantType.E5M2, new PerTensor(), new Scaling.Current(new TransformerEngineScale(0, false, false))));
    /** What a product makes. */
    private static final Map<Product, String> RESULTS =
            Map.of(Product.FPROP, "y", Product.DGRAD, "x", Product.WGRAD, "w");

    static List<ProductOperand> operands() {
        return ProductOperand.ALL;
    }

    private static Fp8Policy policy(TrainingRecipe recipe, Map<ProductOperand, OperandChange> changes) {
        return new Fp8Policy(Autocast.fp32(), Fp8Settings.of(recipe)).with(Map.of(LAYER, changes));
    }

    private static float[] random(int n, int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            // far from 1, where a first step's delayed scale lies
            x[i] = 1e-2f * (float) random.nextGaussian();
        }
        return x;
    }

    private static Map<String, float[]> step(PrecisionPolicy policy, Device device) {
        try (device;
                OneLinear linear = new OneLinear(device, policy, ROWS, IN, OUT, true, true)) {
            linear.prepare(random(IN * OUT, 1), new float[OUT]);
            float[] y = linear.forward(random(ROWS * IN, 3));
            Map<String, float[]> all = new HashMap<>(linear.backward(random(ROWS * OUT, 4)));
            all.put("y", y);
            return all;
        }
    }

    private static void assertNear(
            Map<String, float[]> expected, Map<String, float[]> actual, float tolerance, String what) {
        RESULTS.values()
                .forEach(name -> assertArrayEquals(
                        requireNonNull(expected.get(name)),
                        requireNonNull(actual.get(name)),
                        tolerance,
                        what + " " + name));
    }

    @ParameterizedTest
    @MethodSource("operands")
    void a_change_of_one_operand_moves_the_result_of_its_product_alone(ProductOperand operand) {
        Map<String, float[]> plain = step(policy(DELAYED, Map.of()), CpuDevice.of(2));
        for (OperandChange change : List.of(UNQUANTISED, CURRENT, FAKE)) {
            Map<String, float[]> changed = step(policy(DELAYED, Map.of(operand, change)), CpuDevice.of(2));
            RESULTS.forEach((product, name) -> {
                boolean same = Arrays.equals(changed.get(name), plain.get(name));
                assertEquals(product != operand.product(), same, change + " " + name);
            });
        }
    }

    @Tag("kernels")
    @ParameterizedTest
    @MethodSource("operands")
    void processors_and_kernels_of_gpus_compute_changed_operands_as_the_reference_does(ProductOperand operand) {
        for (OperandChange change : List.of(UNQUANTISED, CURRENT, FAKE)) {
            Fp8Policy policy = policy(DELAYED, Map.of(operand, change));
            Map<String, float[]> reference = step(policy, new ReferenceDevice());
            assertNear(reference, step(policy, CpuDevice.of(2)), 1e-8f, "cpu " + change);
            // FP8 units cut products off 13 bits behind the largest of a group; results are about 1e-3
            float sums = TestGpus.inEmulation() ? 1e-8f : 1e-6f;
            assertNear(reference, step(policy, TestGpus.hostDevice(90)), sums, "kernels " + change);
        }
    }

    @Test
    void current_scaling_of_every_operand_is_the_recipe_current() {
        Map<ProductOperand, OperandChange> all = new TreeMap<>();
        ProductOperand.ALL.forEach(o -> all.put(o, CURRENT));
        Map<String, float[]> changed = step(policy(DELAYED, all), CpuDevice.of(2));
        Map<String, float[]> recipe = step(policy(CurrentScaling.DEFAULT, Map.of()), CpuDevice.of(2));
        RESULTS.values().forEach(name -> assertArrayEquals(recipe.get(name), changed.get(name), name));
    }

    @Test
    void a_layer_with_no_operand_quantised_is_computed_as_autocast_has_it() {
        Map<ProductOperand, OperandChange> all = new TreeMap<>();
        ProductOperand.ALL.forEach(o -> all.put(o, UNQUANTISED));
        Fp8Policy policy = policy(DELAYED, all);
        Fp8Choice choice = policy.fp8(OneLinear.model(ROWS, IN, OUT, true).graph());
        assertEquals(List.of(), choice.layers());
        assertEquals(
                "changed: no operand is quantised", choice.kept().getFirst().reason());
        Map<String, float[]> plain = step(Autocast.fp32(), CpuDevice.of(2));
        Map<String, float[]> changed = step(policy, CpuDevice.of(2));
        RESULTS.values().forEach(name -> assertArrayEquals(plain.get(name), changed.get(name), name));
    }

    @Test
    void a_change_for_a_layer_that_the_graph_lacks_is_an_error() {
        Fp8Policy policy = policy(DELAYED, Map.of())
                .with(Map.of("elsewhere", Map.of(ProductOperand.parse("fprop.input"), CURRENT)));
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> policy.fp8(OneLinear.model(ROWS, IN, OUT, true).graph()));
        assertEquals("'elsewhere' is none of the 1 Linears", e.what());
    }

    @Test
    void the_history_of_a_gradient_is_kept_while_one_product_still_takes_it_delayed() {
        ProductOperand dgrad = new ProductOperand(Product.DGRAD, LinearTensor.GRAD_OUTPUT);
        try (Device device = CpuDevice.of(1);
                OneLinear linear =
                        new OneLinear(device, policy(DELAYED, Map.of(dgrad, CURRENT)), ROWS, IN, OUT, true, true)) {
            linear.prepare(random(IN * OUT, 1), new float[OUT]);
            linear.forward(random(ROWS * IN, 3));
            float[] dy = random(ROWS * OUT, 4);
            linear.backward(dy);
            float amax = 0;
            for (float x : dy) {
                amax = Math.max(amax, Math.abs(x));
            }
            float[] history = linear.lasting("fp8.layer.grad_output.amax_history");
            assertEquals(amax, history[history.length - 1]);
        }
    }

    @Test
    void operands_are_named_by_product_and_tensor() {
        for (ProductOperand operand : ProductOperand.ALL) {
            assertEquals(operand, ProductOperand.parse(operand.toString()));
            assertEquals(
                    List.of(operand), ProductOperand.named(operand.toString()).orElseThrow());
        }
        assertEquals(
                "[dgrad.grad_output, dgrad.weight]",
                ProductOperand.named("dgrad").orElseThrow().toString());
        assertTrue(ProductOperand.named("backward").isEmpty());
        assertThrows(IllegalArgumentException.class, () -> ProductOperand.parse("dgrad"));
        assertThrows(IllegalArgumentException.class, () -> new ProductOperand(Product.FPROP, LinearTensor.GRAD_OUTPUT));
    }
}
