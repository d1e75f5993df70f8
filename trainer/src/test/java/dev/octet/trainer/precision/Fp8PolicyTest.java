package dev.octet.trainer.precision;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.FormatPair;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.recipe.TrainingRecipe.BackwardOverride;
import dev.octet.quant.recipe.TrainingRecipe.BlockScaling;
import dev.octet.quant.recipe.TrainingRecipe.CurrentScaling;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.quant.recipe.TrainingRecipe.Mxfp8;
import dev.octet.quant.recipe.TrainingRecipe.Rowwise;
import dev.octet.quant.scale.AmaxHistory.Algorithm;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.fp8.QuantizeFp8;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.precision.Fp8Settings.LayerOverride;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class Fp8PolicyTest {
    private static final int ROWS = 6;
    private static final int IN = 32;
    private static final int OUT = 48;
    private static final Arena ARENA = Arena.ofAuto();
    private static final DelayedScaling DELAYED =
            new DelayedScaling(0, FormatPair.HYBRID, 4, Algorithm.MAX, true, true, false);

    private static float[] random(int n, int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            x[i] = (float) random.nextGaussian();
        }
        return x;
    }

    private static Fp8Policy policy(TrainingRecipe recipe) {
        return new Fp8Policy(Autocast.fp32(), Fp8Settings.of(recipe));
    }

    private static Fp8Policy policy(TrainingRecipe recipe, Set<Product> highPrecision, boolean fake) {
        return new Fp8Policy(
                Autocast.fp32(),
                new Fp8Settings(
                        recipe,
                        highPrecision,
                        fake,
                        true,
                        false,
                        false,
                        LayerFilter.NONE,
                        Map.of(),
                        List.of(),
                        Map.of()));
    }

    /** Output and gradients of one step from fresh state. */
    private static Map<String, float[]> step(PrecisionPolicy policy, int threads) {
        return step(policy, CpuDevice.of(threads), IN, OUT);
    }

    private static Map<String, float[]> step(PrecisionPolicy policy, Device on, int in, int out) {
        try (on;
                OneLinear linear = new OneLinear(on, policy, ROWS, in, out, true, true)) {
            // a bias that BF16 has exactly: next to codes it is rounded to that, next to F32 it is not
            linear.prepare(random(in * out, 1), whole(out, 5));
            float[] y = linear.forward(random(ROWS * in, 3));
            Map<String, float[]> all = new HashMap<>(linear.backward(random(ROWS * out, 4)));
            all.put("y", y);
            return all;
        }
    }

    /** Small whole numbers, exact in FP8 under scales of powers of two; biases are not exact in BF16. */
    @Tag("kernels")
    @ParameterizedTest
    @CsvSource({"true, false", "false, true"})
    void a_bias_beside_a_product_in_f32_stays_f32(boolean highPrecision, boolean fakeQuantize) {
        CurrentScaling exact = new CurrentScaling(true, FormatPair.E4M3, 0, BackwardOverride.NONE);
        Set<Product> kept = highPrecision ? Set.of(Product.FPROP) : Set.of();
        float[] x = whole(ROWS * IN, 3);
        float[] w = whole(OUT * IN, 5);
        float[] b = random(OUT, 2);
        for (Device device : List.of(CpuDevice.of(2), new ReferenceDevice(), TestGpus.hostDevice(90))) {
            try (device;
                    OneLinear linear =
                            new OneLinear(device, policy(exact, kept, fakeQuantize), ROWS, IN, OUT, true, true)) {
                linear.prepare(w, b);
                float[] y = linear.forward(x);
                for (int r = 0; r < ROWS; r++) {
                    for (int o = 0; o < OUT; o++) {
                        double sum = b[o];
                        for (int i = 0; i < IN; i++) {
                            sum += (double) x[r * IN + i] * w[o * IN + i];
                        }
                        assertEquals(sum, y[r * OUT + o], 1e-7 * Math.max(1, Math.abs(sum)), device.name());
                    }
                }
            }
        }
    }

    private static float[] whole(int n, int modulus) {
        float[] all = new float[n];
        for (int i = 0; i < n; i++) {
            all[i] = (i * 7) % modulus - modulus / 2;
        }
        return all;
    }

    private static double distance(Map<String, float[]> a, Map<String, float[]> b, String name) {
        float[] is = requireNonNull(a.get(name));
        float[] should = requireNonNull(b.get(name));
        double sum = 0;
        double norm = 0;
        for (int i = 0; i < is.length; i++) {
            sum += Math.pow(is[i] - should[i], 2);
            norm += Math.pow(should[i], 2);
        }
        return Math.sqrt(sum / norm);
    }

    @Test
    void products_in_high_precision_are_those_of_f32() {
        Map<String, float[]> plain = step(PrecisionPolicy.FP32, 1);
        Map<String, float[]> mixed = step(policy(CurrentScaling.DEFAULT, Set.of(Product.WGRAD), false), 1);
        assertTrue(distance(mixed, plain, "w") < 1e-6);
        assertTrue(distance(mixed, plain, "y") > 1e-3, "fprop is in FP8");
        assertTrue(distance(mixed, plain, "x") > 1e-3, "dgrad is in FP8");
        Map<String, float[]> forward = step(policy(CurrentScaling.DEFAULT, Set.of(Product.FPROP), false), 1);
        assertTrue(distance(forward, plain, "y") < 1e-2, "but for the bias, which is BF16");
        assertTrue(distance(forward, plain, "w") > 1e-3);
    }

    @Test
    void fp8_is_near_f32() {
        Map<String, float[]> plain = step(PrecisionPolicy.FP32, 1);
        for (TrainingRecipe recipe : List.of(DELAYED, CurrentScaling.DEFAULT, BlockScaling.DEFAULT)) {
            Map<String, float[]> fp8 = step(policy(recipe), 1);
            for (String name : List.of("y", "x", "w")) {
                double d = distance(fp8, plain, name);
                assertTrue(d < 0.08, recipe.name() + " " + name + " " + d);
            }
        }
    }

    @Test
    void squares_of_weights_that_hold_whole_vectors_are_scaled_as_the_reference_does() {
        int in = 24;
        int out = 200; // vectors fit into a square, and there are several squares
        for (TrainingRecipe recipe :
                List.of(BlockScaling.DEFAULT, new Mxfp8(FormatPair.E4M3, true, BackwardOverride.NONE))) {
            for (boolean wide : new boolean[] {true, false}) {
                int k = wide ? in : out;
                int n = wide ? out : in;
                Map<String, float[]> cpu = step(policy(recipe), CpuDevice.of(2), k, n);
                Map<String, float[]> reference = step(policy(recipe), new ReferenceDevice(), k, n);
                for (String name : List.of("y", "x", "w")) {
                    assertTrue(distance(cpu, reference, name) < 1e-5, recipe.name() + " " + name + " of " + k);
                }
            }
        }
    }

    @Test
    void fake_quantisation_computes_the_same_from_what_codes_stand_for() {
        for (TrainingRecipe recipe : List.of(DELAYED, CurrentScaling.DEFAULT, BlockScaling.DEFAULT)) {
            Map<String, float[]> real = step(policy(recipe), 1);
            Map<String, float[]> fake = step(policy(recipe, Set.of(), true), 1);
            for (String name : List.of("y", "x", "w")) {
                assertTrue(distance(fake, real, name) < 1e-6, recipe.name() + " " + name);
            }
        }
    }

    @Test
    void an_override_of_backward_takes_operands_unquantised_or_what_forwards_codes_stand_for() {
        Map<String, float[]> plain = step(PrecisionPolicy.FP32, 1);
        Map<String, float[]> high =
                step(policy(new BlockScaling(false, FormatPair.E4M3, 0, 1, 2, 1, BackwardOverride.HIGH_PRECISION)), 1);
        assertTrue(distance(high, plain, "x") < 1e-6);
        assertTrue(distance(high, plain, "w") < 1e-6);
        Map<String, float[]> dequantized =
                step(policy(new BlockScaling(false, FormatPair.E4M3, 0, 1, 2, 1, BackwardOverride.DEQUANTIZED)), 1);
        assertTrue(distance(dequantized, plain, "x") > 1e-3);
        assertTrue(distance(dequantized, plain, "w") > 1e-3);
    }

    @Test
    void any_number_of_threads_gives_the_same_bits() {
        for (TrainingRecipe recipe : List.of(DELAYED, BlockScaling.DEFAULT)) {
            Map<String, float[]> one = step(policy(recipe), 1);
            Map<String, float[]> three = step(policy(recipe), 3);
            one.forEach((name, values) -> assertArrayEquals(values, three.get(name), name));
        }
    }

    @Test
    void a_program_without_backward_reads_scales_and_changes_nothing() {
        Program program = Autodiff.program(
                OneLinear.model(ROWS, IN, OUT, true),
                ProgramOptions.forward(List.of("y"), Set.of("w", "b"), policy(DELAYED)));
        for (Step s : program.steps()) {
            assertFalse(s.op().type().equals("AmaxUpdate"));
            if (s.op() instanceof QuantizeFp8Delayed q) {
                assertEquals(0, q.historyLength());
            }
        }
        try (Device device = CpuDevice.of(1);
                OneLinear linear = new OneLinear(device, policy(DELAYED), ROWS, IN, OUT, true, false)) {
            linear.prepare(random(IN * OUT, 1), random(OUT, 2));
            linear.forward(random(ROWS * IN, 3));
            assertArrayEquals(new float[4], linear.lasting("fp8.layer.input.amax_history"));
            assertEquals(1, linear.lasting("fp8.layer.input.quant_scale")[0]);
        }
    }

    @Test
    void a_nan_is_left_out_of_the_amax_of_transformer_engine() {
        try (Device device = CpuDevice.of(2);
                OneLinear linear = new OneLinear(device, policy(DELAYED), ROWS, IN, OUT, true, true)) {
            linear.prepare(random(IN * OUT, 1), random(OUT, 2));
            float[] x = new float[ROWS * IN];
            x[5] = Float.NaN;
            x[7] = -3;
            assertTrue(Float.isNaN(linear.forward(x)[0]));
            assertArrayEquals(new float[] {0, 0, 0, 3}, linear.lasting("fp8.layer.input.amax_history"));
        }
    }

    /** Weights of which those of one input, or of one output, are so small that the scale of the others makes them zero. */
    private static float[] weights(boolean transB, int smallIn, int smallOut) {
        float[] w = random(IN * OUT, 1);
        for (int i = 0; i < IN; i++) {
            for (int o = 0; o < OUT; o++) {
                w[transB ? o * IN + i : i * OUT + o] *= i == smallIn || o == smallOut ? 0x1p-24f : 1;
            }
        }
        return w;
    }

    /** Largest magnitude in a column of results. */
    private static float largest(float[] all, int columns, int column) {
        float largest = 0;
        for (int i = column; i < all.length; i += columns) {
            largest = Math.max(largest, Math.abs(all[i]));
        }
        return largest;
    }

    @Test
    void scales_of_a_weight_run_along_the_sums_of_each_product_however_it_lies() {
        for (TrainingRecipe recipe : List.of(Mxfp8.DEFAULT, new Rowwise())) {
            for (boolean transB : new boolean[] {true, false}) {
                try (Device device = CpuDevice.of(1);
                        OneLinear linear = new OneLinear(device, policy(recipe), ROWS, IN, OUT, transB, true)) {
                    linear.prepare(weights(transB, -1, 40), new float[OUT]);
                    float[] y = linear.forward(random(ROWS * IN, 3));
                    assertTrue(largest(y, OUT, 40) > 0, recipe.name() + " fprop " + transB);
                    linear.prepare(weights(transB, 20, -1), new float[OUT]);
                    linear.forward(random(ROWS * IN, 3));
                    float[] dx = requireNonNull(
                            linear.backward(random(ROWS * OUT, 4)).get("x"));
                    assertTrue(largest(dx, IN, 20) > 0, recipe.name() + " dgrad " + transB);
                }
            }
        }
    }

    @Test
    void casts_before_an_update_leave_the_larger_amax_to_it() {
        try (Device device = CpuDevice.of(1);
                OneLinear linear = new OneLinear(device, policy(DELAYED), ROWS, IN, OUT, true, true)) {
            for (float amax : new float[] {5, 3}) {
                float[] w = new float[IN * OUT];
                w[7] = -amax;
                linear.prepare(w, new float[OUT]);
            }
            linear.forward(new float[ROWS * IN]);
            assertArrayEquals(new float[] {0, 0, 0, 5}, linear.lasting("fp8.w.weight.amax_history"));
        }
    }

    @Test
    void an_update_that_is_not_fused_moves_the_window_past_a_zero_and_takes_the_newest_when_asked_to() {
        DelayedScaling apart = new DelayedScaling(0, FormatPair.E4M3, 4, Algorithm.MOST_RECENT, false, true, false);
        try (Device device = CpuDevice.of(1);
                OneLinear linear = new OneLinear(device, policy(apart), ROWS, IN, OUT, true, true)) {
            linear.prepare(random(IN * OUT, 1), new float[OUT]);
            for (float amax : new float[] {4, 0, 2}) {
                float[] x = new float[ROWS * IN];
                x[3] = amax;
                linear.forward(x);
            }
            assertArrayEquals(new float[] {0, 4, 0, 2}, linear.lasting("fp8.layer.input.amax_history"));
            assertEquals(448f / 2, linear.lasting("fp8.layer.input.quant_scale")[0]);
        }
    }

    @Test
    void the_amax_kept_of_an_input_in_blocks_is_the_largest_of_all() {
        try (Device device = CpuDevice.of(1);
                OneLinear linear = new OneLinear(device, policy(new Rowwise()), ROWS, IN, OUT, true, true)) {
            linear.prepare(random(IN * OUT, 1), new float[OUT]);
            float[] x = new float[ROWS * IN];
            Arrays.fill(x, 1);
            x[IN] = -7; // in the second row
            linear.forward(x);
            assertEquals(7, linear.lasting("fp8.layer.input.amax")[0]);
        }
    }

    // --- plans

    private static GraphModel two(String... norms) {
        List<Node> nodes = new ArrayList<>();
        String x = "x";
        for (String norm : norms) {
            nodes.add(Node.of(norm, "LayerNormalization", List.of(x, "gamma"), List.of(norm + ":y")));
            x = norm + ":y";
        }
        nodes.add(Node.of("first", "Linear", Node.OCTET_DOMAIN, List.of(x, "w1"), List.of("a")));
        nodes.add(Node.of("second", "Linear", Node.OCTET_DOMAIN, List.of(x, "w2"), List.of("b")));
        nodes.add(Node.of("third", "Linear", Node.OCTET_DOMAIN, List.of("a", "w3"), List.of("c")));
        return GraphModel.of(
                Graph.of(
                        "g",
                        nodes,
                        List.of(weight("w1", 32, 48), weight("w2", 32, 40), weight("w3", 48, 32), gamma()),
                        List.of(OneLinear.f32("x", ROWS, 32)),
                        List.of(OneLinear.f32("b", ROWS, 40), OneLinear.f32("c", ROWS, 32))),
                10,
                21);
    }

    private static Initializer weight(String name, int in, int out) {
        return Initializer.of(Tensor.ofFloats(ARENA, name, Shape.of(in, out), random(in * out, name.hashCode())));
    }

    private static Initializer gamma() {
        float[] ones = new float[32];
        Arrays.fill(ones, 1);
        return Initializer.of(Tensor.ofFloats(ARENA, "gamma", Shape.of(32), ones));
    }

    private static Program program(GraphModel model, Fp8Policy policy) {
        Set<String> weights = Set.of("w1", "w2", "w3", "gamma");
        return Autodiff.program(
                model, new ProgramOptions(List.of("b", "c"), null, Set.of("b", "c"), weights, weights, policy));
    }

    private static Fp8Policy policy(
            TrainingRecipe recipe, boolean first, boolean last, LayerFilter filter, LayerOverride... overrides) {
        return new Fp8Policy(
                Autocast.bf16(),
                new Fp8Settings(
                        recipe, Set.of(), false, true, first, last, filter, Map.of(), List.of(overrides), Map.of()));
    }

    private static LayerOverride override(String regex, boolean fp8, @Nullable TrainingRecipe recipe) {
        return new LayerOverride(Pattern.compile(regex), fp8, recipe, null, null, Map.of());
    }

    private static List<String> layers(Fp8Policy policy) {
        return policy.layers(two().graph()).stream()
                .map(l -> l.node() + " " + l.recipe().name() + " " + l.inputOwner())
                .toList();
    }

    @Test
    void first_and_last_layers_are_exempt_when_asked_for() {
        assertEquals(List.of("second delayed second"), layers(policy(DELAYED, true, true, LayerFilter.NONE)));
    }

    @Test
    void overrides_choose_layers_by_node_or_weight_and_the_first_counts() {
        Fp8Policy policy = policy(
                DELAYED,
                false,
                false,
                LayerFilter.NONE,
                override("thi", false, null),
                override("w[23]", true, CurrentScaling.DEFAULT));
        assertEquals(List.of("first delayed first", "second current second"), layers(policy));
    }

    @Test
    void an_override_that_names_no_layer_is_refused() {
        Fp8Policy policy = policy(DELAYED, false, false, LayerFilter.NONE, override("fourth", false, null));
        InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> policy.layers(two().graph()));
        assertEquals("'fourth' is in the name of none of the 3 Linears", e.what());
    }

    @Test
    void layers_of_other_sizes_than_multiples_of_16_are_left_alone_when_asked_for() {
        assertEquals(
                List.of("first delayed first", "third delayed third"),
                layers(policy(DELAYED, false, false, LayerFilter.MULTIPLE_OF_16)));
    }

    @Test
    void a_layer_whose_columns_ranks_share_unevenly_is_left_alone_by_all_where_one_would() {
        Graph graph = two().graph();
        GraphEdit edit = GraphEdit.of(graph);
        Node third = graph.nodes().stream()
                .filter(n -> n.id().equals("third"))
                .findFirst()
                .orElseThrow();
        edit.replace(third, third.with(Attribute.of(LinearModule.COLUMNS, List.of(32L, 33L))));
        assertEquals(
                List.of("first"),
                policy(DELAYED, false, false, LayerFilter.MULTIPLE_OF_16).layers(edit.build()).stream()
                        .map(Fp8Layer::node)
                        .toList());
    }

    @Test
    void what_is_left_alone_is_named_with_its_reason() {
        Fp8Policy exempt = policy(DELAYED, true, true, LayerFilter.NONE);
        assertEquals(
                List.of(
                        new KeptLinear("first", "the first, by exempt_first"),
                        new KeptLinear("third", "the last, by exempt_last")),
                exempt.fp8(two().graph()).kept());
        Fp8Policy small = policy(DELAYED, false, false, LayerFilter.MULTIPLE_OF_16, override("thi", false, null));
        assertEquals(
                List.of(
                        new KeptLinear("second", "its size, by filter multiple_of_16"),
                        new KeptLinear("third", "fp8: false for layers matching 'thi'")),
                small.fp8(two().graph()).kept());
    }

    @Test
    void products_of_activations_and_other_weights_are_named_too() {
        GraphModel model = GraphModel.of(
                Graph.of(
                        "g",
                        List.of(
                                Node.of("scores", "MatMul", List.of("x", "y"), List.of("s")),
                                Node.of("batched", "MatMul", List.of("s", "w"), List.of("z"))),
                        List.of(Initializer.of(Tensor.ofFloats(ARENA, "w", Shape.of(2, 4, 4), new float[32]))),
                        List.of(OneLinear.f32("x", 2, 4, 4), OneLinear.f32("y", 2, 4, 4)),
                        List.of(OneLinear.f32("z", 2, 4, 4))),
                10,
                21);
        assertEquals(
                List.of(
                        new KeptLinear("scores", "multiplies two activations"),
                        new KeptLinear("batched", "its weight is not the matrix of a Linear")),
                policy(DELAYED).fp8(model.graph()).kept());
    }

    @Test
    void torchaos_filter_leaves_small_layers() {
        assertFalse(LayerFilter.TORCHAO_ROWWISE.keeps(4096, 2048));
        assertFalse(LayerFilter.TORCHAO_ROWWISE.keeps(2048, 4096));
        assertTrue(LayerFilter.TORCHAO_ROWWISE.keeps(4096, 4096));
        assertFalse(LayerFilter.TORCHAO_TENSORWISE.keeps(4096, 1024));
        assertTrue(LayerFilter.TORCHAO_TENSORWISE.keeps(4096, 1040));
        assertFalse(LayerFilter.TORCHAO_TENSORWISE.keeps(8200, 8192));
    }

    @Test
    void an_input_of_two_layers_is_quantised_once() {
        Program program = program(two(), policy(DELAYED, false, false, LayerFilter.NONE));
        List<Step> inputs = program.steps(Phase.FORWARD).stream()
                .filter(s -> s.op() instanceof QuantizeFp8Delayed)
                .toList();
        assertEquals(2, inputs.size(), "x and a");
        long weights = program.steps(Phase.PREPARE).stream()
                .filter(s -> s.op() instanceof QuantizeFp8Delayed)
                .count();
        assertEquals(3, weights);
        long updates = program.steps().stream()
                .filter(s -> s.op().type().equals("AmaxUpdate"))
                .count();
        assertEquals(2, updates, "one after forward, one after backward");
    }

    @Test
    void a_normalisation_that_only_fp8_reads_hands_over_f32() {
        Program delayed = program(two("norm"), policy(DELAYED, false, false, LayerFilter.NONE));
        assertEquals(DType.F32, quantized(delayed).x().dtype());
        Fp8Policy current = policy(CurrentScaling.DEFAULT, false, false, LayerFilter.NONE);
        Program other = program(two("norm"), current);
        QuantizeFp8 q = (QuantizeFp8) other.steps(Phase.FORWARD).stream()
                .map(Step::op)
                .filter(o -> o instanceof QuantizeFp8)
                .findFirst()
                .orElseThrow();
        assertEquals(DType.BF16, q.x().dtype(), "current scaling sees the rounded tensor");
        Fp8Policy mixed = policy(DELAYED, true, false, LayerFilter.NONE);
        assertEquals(DType.BF16, quantized(program(two("norm"), mixed)).x().dtype(), "another reader wants BF16");
    }

    private static QuantizeFp8Delayed quantized(Program program) {
        return (QuantizeFp8Delayed) program.steps(Phase.FORWARD).stream()
                .map(Step::op)
                .filter(o -> o instanceof QuantizeFp8Delayed)
                .findFirst()
                .orElseThrow();
    }

    @Test
    void activations_wait_for_backward_as_codes_of_one_byte() {
        Program program = program(two(), policy(DELAYED, false, false, LayerFilter.NONE));
        for (Step s : program.steps(Phase.BACKWARD)) {
            if (s.op() instanceof Fp8Linear) {
                assertNull(s.inputs().get(Fp8Linear.X));
                assertEquals(
                        DType.F8_E4M3FN,
                        requireNonNull(s.inputs().get(Fp8Linear.X_CODES)).type().dtype());
            }
        }
    }

    @Test
    void two_recipes_for_one_input_have_a_scale_each() {
        DelayedScaling other = new DelayedScaling(0, FormatPair.E4M3, 4, Algorithm.MAX, true, true, false);
        Program program =
                program(two(), policy(DELAYED, false, false, LayerFilter.NONE, override("second", true, other)));
        Set<String> states = program.lasting().stream().map(Value::name).collect(Collectors.toSet());
        assertTrue(states.contains("fp8.first.input.quant_scale"), states.toString());
        assertTrue(states.contains("fp8.second.input.quant_scale"), states.toString());
    }

    @Test
    void a_normalisation_that_is_an_output_too_stays_in_the_narrow_type() {
        GraphModel model = two("norm");
        GraphEdit edit = GraphEdit.of(model.graph());
        List<ValueInfo> outputs = new ArrayList<>(model.graph().outputs());
        outputs.add(OneLinear.f32("norm:y", ROWS, 32));
        edit.setOutputs(outputs);
        Program program = program(model.withGraph(edit.build()), policy(DELAYED, false, false, LayerFilter.NONE));
        assertEquals(DType.BF16, quantized(program).x().dtype());
    }
}
