package dev.octet.trainer.precision;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Graph;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.observe.CastStatistic;
import dev.octet.trainer.observe.DebugChanges;
import dev.octet.trainer.observe.DebugPlan;
import dev.octet.trainer.observe.DebugSection;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.observe.Feature;
import dev.octet.trainer.observe.LayerSelection;
import dev.octet.trainer.observe.ObservedTensor;
import dev.octet.trainer.observe.StepGate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** What the features of a debug configuration make of a run's policy. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DebugChangesTest {
    private static final int ROWS = 8;
    private static final int IN = 64;
    private static final int OUT = 32;
    private static final Fp8Policy DELAYED =
            new Fp8Policy(Autocast.bf16(), Fp8Settings.of(TrainingRecipe.DelayedScaling.DEFAULT));
    private static final Map<ObservedTensor, String> RESULTS =
            Map.of(ObservedTensor.OUTPUT, "y", ObservedTensor.DGRAD, "x", ObservedTensor.WGRAD, "w");

    private static Graph graph(boolean transB) {
        return OneLinear.model(ROWS, IN, OUT, transB).graph();
    }

    private static DebugChanges changes(PrecisionPolicy policy, Graph graph, Feature... features) {
        DebugSection section = new DebugSection(
                "one", new LayerSelection.Kinds(List.of(), List.of()), List.of(features), "te.yaml, line 1");
        DebugSettings settings = new DebugSettings(List.of(section), Optional.empty(), false, false, 1, List.of());
        return DebugChanges.of(DebugPlan.of(settings, LinearModule.of(graph)), policy, graph);
    }

    private static String refused(PrecisionPolicy policy, Feature... features) {
        return assertThrows(InvalidOptionException.class, () -> changes(policy, graph(true), features))
                .what();
    }

    private static float[] random(int n, int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            x[i] = 1e-2f * (float) random.nextGaussian();
        }
        return x;
    }

    private static Map<String, float[]> step(PrecisionPolicy policy, Device device, boolean transB) {
        try (device;
                OneLinear linear = new OneLinear(device, policy, ROWS, IN, OUT, transB, true)) {
            linear.prepare(random(IN * OUT, 1), random(OUT, 2));
            float[] y = linear.forward(random(ROWS * IN, 3));
            Map<String, float[]> all = new HashMap<>(linear.backward(random(ROWS * OUT, 4)));
            all.put("y", y);
            return all;
        }
    }

    /** What codes of a matrix stand for; the test's own arithmetic. */
    private static float[] rounded(float[] x, int rows, int cols, boolean transposed, Feature.Format format) {
        Float8Format codes = format.codes();
        float[] made = new float[x.length];
        int size = format.hasBlocks() ? 32 : cols;
        float whole = 0;
        for (float v : x) {
            whole = Math.max(whole, Math.abs(v));
        }
        for (int r = 0; r < rows; r++) {
            for (int from = 0; from < cols; from += size) {
                float amax = 0;
                for (int c = from; c < Math.min(cols, from + size); c++) {
                    amax = Math.max(amax, Math.abs(x[transposed ? c * rows + r : r * cols + c]));
                }
                float scale = format.hasBlocks()
                        ? (float) Math.pow(2, -Math.ceil(Math.log(amax / codes.maxValue()) / Math.log(2)))
                        : codes.maxValue() / whole;
                for (int c = from; c < Math.min(cols, from + size); c++) {
                    int at = transposed ? c * rows + r : r * cols + c;
                    made[at] = codes.decode(codes.encode(x[at] * scale, Overflow.SATURATE)) * (1 / scale);
                }
            }
        }
        return made;
    }

    static Stream<Arguments> results() {
        List<Arguments> all = new ArrayList<>();
        for (ObservedTensor tensor : RESULTS.keySet()) {
            for (Feature.Format format : Feature.Format.values()) {
                for (boolean transB : new boolean[] {true, false}) {
                    all.add(Arguments.of(tensor, format, transB));
                }
            }
        }
        return all.stream();
    }

    @ParameterizedTest
    @MethodSource("results")
    void a_faked_result_is_the_product_s_rounded_and_nothing_else_changes(
            ObservedTensor tensor, Feature.Format format, boolean transB) {
        Product product = tensor.product().orElseThrow();
        Feature fake = new Feature.FakeQuant(product, tensor, format);
        PrecisionPolicy faked = changes(Autocast.fp32(), graph(transB), fake).policy();
        for (Supplier<Device> device : List.<Supplier<Device>>of(() -> CpuDevice.of(1), ReferenceDevice::new)) {
            Map<String, float[]> plain = step(Autocast.fp32(), device.get(), transB);
            Map<String, float[]> found = step(faked, device.get(), transB);
            for (String name : List.of("y", "x", "w", "b")) {
                float[] expected = requireNonNull(plain.get(name));
                if (name.equals(RESULTS.get(tensor))) {
                    boolean isWeight = tensor == ObservedTensor.WGRAD;
                    int rows = isWeight ? OUT : ROWS;
                    expected = rounded(expected, rows, expected.length / rows, isWeight && !transB, format);
                }
                assertArrayEquals(expected, requireNonNull(found.get(name)), name);
            }
        }
    }

    @Test
    void a_faked_operand_is_rounded_and_the_other_operand_of_its_product_is_not() {
        Feature fake = new Feature.FakeQuant(Product.FPROP, ObservedTensor.ACTIVATION, Feature.Format.MXFP8E4M3);
        PrecisionPolicy policy = changes(DELAYED, graph(true), fake).policy();
        Fp8Layer layer = ((Fp8Policy) policy).layers(graph(true)).getFirst();
        assertEquals(null, layer.operand(Product.FPROP, LinearTensor.WEIGHT));
        assertTrue(layer.isFake(Product.FPROP));
        assertFalse(layer.isFake(Product.WGRAD));
        // of the other products, operands are as the recipe has them
        assertEquals(
                DELAYED.layers(graph(true)).getFirst().operand(Product.WGRAD, LinearTensor.INPUT),
                layer.operand(Product.WGRAD, LinearTensor.INPUT));
        PrecisionPolicy alone = changes(Autocast.fp32(), graph(true), fake).policy();
        float[] x = rounded(random(ROWS * IN, 3), ROWS, IN, false, Feature.Format.MXFP8E4M3);
        float[] w = random(IN * OUT, 1);
        float[] b = random(OUT, 2);
        float[] y = requireNonNull(step(alone, CpuDevice.of(1), true).get("y"));
        for (int r = 0; r < ROWS; r++) {
            for (int o = 0; o < OUT; o++) {
                double sum = b[o];
                for (int i = 0; i < IN; i++) {
                    sum += (double) x[r * IN + i] * w[o * IN + i];
                }
                assertEquals(sum, y[r * OUT + o], 1e-8);
            }
        }
    }

    @Test
    void disabled_products_and_per_tensor_scales_are_changes_of_their_operands() {
        Fp8Policy policy = (Fp8Policy) changes(
                        DELAYED,
                        graph(true),
                        new Feature.DisableQuantization(Set.of(Product.DGRAD)),
                        new Feature.PerTensorScaling(Product.WGRAD, LinearTensor.GRAD_OUTPUT))
                .policy();
        OperandChange none = new OperandChange.Unquantised();
        assertEquals(
                Map.of(
                        "layer",
                        Map.of(
                                ProductOperand.parse("dgrad.grad_output"), none,
                                ProductOperand.parse("dgrad.weight"), none,
                                ProductOperand.parse("wgrad.grad_output"), new OperandChange.Current())),
                policy.settings().changes());
    }

    @Test
    void changes_that_are_there_stay() {
        Map<ProductOperand, OperandChange> before =
                Map.of(ProductOperand.parse("fprop.input"), new OperandChange.Current());
        Fp8Policy policy = (Fp8Policy) changes(
                        DELAYED.with(Map.of("layer", before)),
                        graph(true),
                        new Feature.DisableQuantization(Set.of(Product.DGRAD)))
                .policy();
        assertEquals(3, requireNonNull(policy.settings().changes().get("layer")).size());
    }

    @Test
    void without_changes_the_policy_is_the_run_s_own() {
        DebugChanges none = changes(DELAYED, graph(true));
        assertSame(DELAYED, none.policy());
        assertEquals(Map.of(), none.settings());
    }

    @Test
    void what_contradicts_or_has_nothing_to_work_on_is_refused() {
        Feature scaling = new Feature.PerTensorScaling(Product.DGRAD, LinearTensor.GRAD_OUTPUT);
        Feature fake = new Feature.FakeQuant(Product.DGRAD, ObservedTensor.GRADIENT, Feature.Format.FP8E5M2);
        assertTrue(refused(DELAYED, scaling, fake).contains("two features change dgrad.grad_output of layer 'layer'"));
        assertTrue(refused(DELAYED, new Feature.DisableQuantization(Set.of(Product.DGRAD)), scaling)
                .contains("two features change"));
        Fp8Policy current = new Fp8Policy(Autocast.bf16(), Fp8Settings.of(TrainingRecipe.CurrentScaling.DEFAULT));
        assertTrue(refused(current, scaling).contains("PerTensorScaling replaces delayed scales"));
        assertTrue(refused(Autocast.bf16(), scaling).contains("PerTensorScaling replaces delayed scales"));
    }

    @Test
    void statistics_of_casts_that_the_layer_does_not_make_are_refused_beforehand() {
        Map<String, CastStatistic> all = CastStatistic.byLabel();
        Fp8Policy current = new Fp8Policy(Autocast.bf16(), Fp8Settings.of(TrainingRecipe.CurrentScaling.DEFAULT));
        for (String delayed : List.of("overflows%", "fp8_delayed_scaling_mse")) {
            Feature log = log(requireNonNull(all.get(delayed)));
            assertTrue(
                    refused(current, log).contains(delayed + " of the weight of layer 'layer' is of delayed scaling"));
            changes(DELAYED, graph(true), log);
        }
        Feature own = log(requireNonNull(all.get("mse")));
        changes(current, graph(true), own);
        assertTrue(refused(Autocast.bf16(), own).contains("is of the layer's own recipe"));
        changes(Autocast.bf16(), graph(true), log(requireNonNull(all.get("mxfp8_mse_columnwise"))));
        Feature columnwise = log(requireNonNull(all.get("mse_columnwise")));
        Feature noDgrad = new Feature.DisableQuantization(Set.of(Product.DGRAD));
        changes(current, graph(true), columnwise);
        assertTrue(refused(current, columnwise, noDgrad).contains("for sums along its first axis"));
    }

    private static Feature log(CastStatistic statistic) {
        return new Feature.LogFp8TensorStats(ObservedTensor.WEIGHT, List.of(statistic), StepGate.ALWAYS);
    }

    @Test
    void a_run_without_fp8_has_nothing_to_disable_and_says_so() {
        DebugChanges found =
                changes(Autocast.bf16(), graph(true), new Feature.DisableQuantization(Set.of(Product.DGRAD)));
        assertEquals(Autocast.bf16(), found.policy());
        assertEquals(1, found.notes().size());
        assertTrue(
                found.notes().getFirst().contains("layer 'layer' is not in FP8"),
                found.notes().getFirst());
    }
}
