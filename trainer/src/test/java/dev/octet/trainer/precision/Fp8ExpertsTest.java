package dev.octet.trainer.precision;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.FormatPair;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.recipe.TrainingRecipe.BackwardOverride;
import dev.octet.quant.recipe.TrainingRecipe.BlockScaling;
import dev.octet.quant.recipe.TrainingRecipe.CurrentScaling;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.quant.recipe.TrainingRecipe.Mxfp8;
import dev.octet.quant.recipe.TrainingRecipe.Rowwise;
import dev.octet.quant.recipe.TrainingRecipe.RowwiseWithGwHp;
import dev.octet.quant.recipe.TrainingRecipe.Tensorwise;
import dev.octet.quant.scale.AmaxHistory.Algorithm;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.precision.Fp8Settings.LayerOverride;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The Linears of experts in FP8, as one step. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class Fp8ExpertsTest {
    private static final int IN = 160;
    private static final int OUT = 96;
    private static final int EXPERTS = 4;
    private static final int ROWS = 70;
    /** The second expert has no rows, the last one only one. */
    private static final float[] OFFSETS = {0, 29, 29, 69, 70};

    private static final Arena ARENA = Arena.ofAuto();
    private static final DelayedScaling DELAYED =
            new DelayedScaling(0, FormatPair.HYBRID, 3, Algorithm.MAX, true, true, false);

    static Stream<TrainingRecipe> recipes() {
        return Stream.of(
                DELAYED,
                new DelayedScaling(1, FormatPair.E4M3, 1, Algorithm.MOST_RECENT, false, true, true),
                CurrentScaling.DEFAULT,
                new CurrentScaling(true, FormatPair.HYBRID, 0, BackwardOverride.DEQUANTIZED),
                Tensorwise.DEFAULT,
                new Rowwise(),
                new RowwiseWithGwHp(),
                BlockScaling.DEFAULT,
                Mxfp8.DEFAULT);
    }

    private static Fp8Policy policy(TrainingRecipe recipe) {
        return new Fp8Policy(Autocast.bf16(), Fp8Settings.of(recipe));
    }

    /** Rows of experts differ in size, so a scale that experts shared would show. */
    private static float[] random(int rows, int cols, int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[rows * cols];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) (random.nextGaussian() * (1 + Math.floorDiv(i, cols) * 0.1));
        }
        return x;
    }

    private static float[] weight(int expert) {
        return random(OUT, IN, 100 + expert);
    }

    private static float[] bias(int expert) {
        return random(1, OUT, 200 + expert);
    }

    private static int first(int expert) {
        return (int) OFFSETS[expert];
    }

    private static float[] part(float[] rows, int expert, int cols) {
        return Arrays.copyOfRange(rows, first(expert) * cols, first(expert + 1) * cols);
    }

    private static GraphModel model() {
        List<String> inputs = new ArrayList<>(List.of("x", "offsets"));
        List<Initializer> constants = new ArrayList<>();
        for (int e = 0; e < EXPERTS; e++) {
            inputs.add("w" + e);
            constants.add(Initializer.of(Tensor.ofFloats(ARENA, "w" + e, Shape.of(OUT, IN), new float[OUT * IN])));
        }
        for (int e = 0; e < EXPERTS; e++) {
            inputs.add("b" + e);
            constants.add(Initializer.of(Tensor.ofFloats(ARENA, "b" + e, Shape.of(OUT), new float[OUT])));
        }
        Node experts = Node.of(
                "experts",
                "GroupedLinear",
                Node.OCTET_DOMAIN,
                inputs,
                List.of("y"),
                Attribute.of("transB", 1),
                Attribute.of(Node.LINEARS, "expert.0\nexpert.1\nexpert.2\nexpert.3"));
        ValueInfo offsets = new ValueInfo("offsets", new TensorType(DType.I64, List.of(Dim.of(EXPERTS + 1))));
        return GraphModel.of(
                Graph.of(
                        "g",
                        List.of(experts),
                        constants,
                        List.of(OneLinear.f32("x", ROWS, IN), offsets),
                        List.of(OneLinear.f32("y", ROWS, OUT))),
                10,
                21);
    }

    /** A model of one such step, running on a device under a policy. */
    private static final class Experts implements AutoCloseable {
        private final Program program;
        private final Memory memory;
        private final Executable running;

        Experts(Device device, PrecisionPolicy policy) {
            Set<String> parameters = new HashSet<>();
            IntStream.range(0, EXPERTS).forEach(e -> parameters.addAll(List.of("w" + e, "b" + e)));
            Set<String> wanted = new HashSet<>(parameters);
            wanted.add("x");
            program = Autodiff.program(
                    model(), new ProgramOptions(List.of("y"), null, Set.of("y"), wanted, parameters, policy));
            memory = device.allocate(program.lasting());
            running = device.load(program, memory);
            for (int e = 0; e < EXPERTS; e++) {
                write("w" + e, weight(e));
                write("b" + e, bias(e));
            }
            running.run(Phase.PREPARE);
        }

        /** y, and the gradients of all by name. */
        Map<String, float[]> step(float[] offsets, float[] x, float[] dy) {
            feed("x", x);
            feed("offsets", offsets);
            running.run(Phase.FORWARD);
            Value result = requireNonNull(program.outputs().get("y"));
            Map<String, float[]> all = new HashMap<>();
            all.put("y", OneLinear.read(result, running::read));
            program.gradients().values().forEach(memory::zero);
            feed(Program.UPSTREAM + "y", dy);
            running.run(Phase.BACKWARD);
            program.gradients().forEach((name, v) -> all.put(name, OneLinear.read(v, memory::read)));
            return all;
        }

        private Value lasting(String name) {
            return program.lasting().stream()
                    .filter(v -> v.name().equals(name))
                    .findFirst()
                    .orElseThrow(() -> new AssertionError(name + " is not among " + program.lasting()));
        }

        float[] state(String name) {
            return OneLinear.read(lasting(name), memory::read);
        }

        /** Scales, amaxes and histories by name. */
        Map<String, float[]> states() {
            Map<String, float[]> all = new TreeMap<>();
            program.lasting().stream()
                    .map(Value::name)
                    .filter(n -> n.startsWith("fp8."))
                    .forEach(n -> all.put(n, state(n)));
            return all;
        }

        private void write(String name, float[] elements) {
            Value v = lasting(name);
            memory.write(v, OneLinear.bytes(v, elements));
        }

        private void feed(String name, float[] elements) {
            Value v = requireNonNull(program.inputs().get(name));
            running.feed(v, OneLinear.bytes(v, elements));
        }

        @Override
        public void close() {
            running.close();
            memory.close();
        }
    }

    @ParameterizedTest
    @MethodSource("recipes")
    void each_expert_computes_what_a_linear_of_its_own_rows_does_to_the_bit(TrainingRecipe recipe) {
        List<Map<String, float[]>> steps = new ArrayList<>();
        Map<String, float[]> states = new TreeMap<>();
        try (Device cpu = CpuDevice.of(2);
                Experts all = new Experts(cpu, policy(recipe))) {
            for (int s = 0; s < 3; s++) {
                steps.add(all.step(OFFSETS, random(ROWS, IN, s), random(ROWS, OUT, 10 + s)));
            }
            states.putAll(all.states());
        }
        int compared = 0;
        for (int e = 0; e < EXPERTS; e++) {
            int rows = (int) (OFFSETS[e + 1] - OFFSETS[e]);
            if (rows == 0) {
                assertArrayEquals(new float[OUT * IN], steps.getLast().get("w" + e));
                assertArrayEquals(new float[OUT], steps.getLast().get("b" + e));
                continue;
            }
            try (Device cpu = CpuDevice.of(2);
                    OneLinear linear = new OneLinear(cpu, policy(recipe), rows, IN, OUT, true, true)) {
                linear.prepare(weight(e), bias(e));
                for (int s = 0; s < steps.size(); s++) {
                    float[] y = linear.forward(part(random(ROWS, IN, s), e, IN));
                    Map<String, float[]> gradients = linear.backward(part(random(ROWS, OUT, 10 + s), e, OUT));
                    Map<String, float[]> step = steps.get(s);
                    assertArrayEquals(y, part(requireNonNull(step.get("y")), e, OUT), "y of " + e);
                    assertArrayEquals(gradients.get("x"), part(requireNonNull(step.get("x")), e, IN), "dx of " + e);
                    assertArrayEquals(gradients.get("w"), step.get("w" + e), "dw of " + e);
                    assertArrayEquals(gradients.get("b"), step.get("b" + e), "db of " + e);
                }
                for (String state : linear.states()) {
                    String name =
                            state.replace("fp8.layer.", "fp8.expert." + e + ".").replace("fp8.w.", "fp8.w" + e + ".");
                    assertArrayEquals(linear.lasting(state), states.get(name), name);
                    compared++;
                }
            }
        }
        boolean remembers = recipe.isDelayed() || recipe.operand(Product.FPROP, LinearTensor.INPUT) != null;
        assertEquals(remembers, compared > 0, states.keySet().toString());
    }

    @ParameterizedTest
    @MethodSource("recipes")
    void the_processor_computes_what_the_reference_does(TrainingRecipe recipe) {
        assertComputesWhatTheReferenceDoes(() -> CpuDevice.of(2), policy(recipe), OFFSETS);
    }

    @Tag("emulated")
    @ParameterizedTest
    @MethodSource("recipes")
    void a_gpu_computes_what_the_reference_does(TrainingRecipe recipe) {
        assertComputesWhatTheReferenceDoes(() -> TestGpus.hostDevice(90), policy(recipe), OFFSETS);
    }

    static Stream<Arguments> recipesInOtherTypes() {
        return recipes()
                .flatMap(r -> Stream.of(Autocast.fp32(), Autocast.fp16()).map(type -> Arguments.of(r, type)));
    }

    @ParameterizedTest
    @MethodSource("recipesInOtherTypes")
    void a_gpu_computes_what_the_reference_does_beside_other_types(TrainingRecipe recipe, Autocast type) {
        Fp8Policy policy = new Fp8Policy(type, Fp8Settings.of(recipe));
        assertComputesWhatTheReferenceDoes(() -> TestGpus.hostDevice(90), policy, OFFSETS);
    }

    static Stream<Arguments> recipesWithAllRowsInOneExpert() {
        return recipes()
                .flatMap(r -> Stream.of(new float[] {0, 0, 0, 70, 70}, new float[] {0, 70, 70, 70, 70})
                        .map(offsets -> Arguments.of(r, offsets)));
    }

    @ParameterizedTest
    @MethodSource("recipesWithAllRowsInOneExpert")
    void a_gpu_computes_what_the_reference_does_with_all_rows_in_one_expert(TrainingRecipe recipe, float[] offsets) {
        assertComputesWhatTheReferenceDoes(() -> TestGpus.hostDevice(90), policy(recipe), offsets);
    }

    private static void assertComputesWhatTheReferenceDoes(
            Supplier<Device> device, PrecisionPolicy policy, float[] offsets) {
        List<Map<String, float[]>> both = new ArrayList<>();
        for (Device each : List.of(new ReferenceDevice(), device.get())) {
            try (each;
                    Experts all = new Experts(each, policy)) {
                all.step(offsets, random(ROWS, IN, 0), random(ROWS, OUT, 10));
                both.add(all.step(offsets, random(ROWS, IN, 1), random(ROWS, OUT, 11)));
            }
        }
        for (String name : both.getFirst().keySet()) {
            float[] expected = requireNonNull(both.getFirst().get(name));
            float[] actual = requireNonNull(both.getLast().get(name));
            double largest = 0;
            double error = 0;
            for (int i = 0; i < expected.length; i++) {
                largest = Math.max(largest, Math.abs(expected[i]));
                error = Math.max(error, Math.abs(expected[i] - actual[i]));
            }
            // results are rounded to BF16, on either side of a border where sums have another order: half a step of
            // eight bits, twice
            assertTrue(error <= largest * 0x1p-8, name + ": " + error + " of " + largest);
        }
    }

    @ParameterizedTest
    @MethodSource("recipes")
    void scales_and_amaxes_on_a_gpu_are_those_of_the_processor_to_the_bit(TrainingRecipe recipe) {
        List<Map<String, float[]>> both = new ArrayList<>();
        for (Device device : List.of(CpuDevice.of(2), TestGpus.hostDevice(90))) {
            try (device;
                    Experts all = new Experts(device, policy(recipe))) {
                for (int s = 0; s < 3; s++) {
                    all.step(OFFSETS, random(ROWS, IN, s), random(ROWS, OUT, 10 + s));
                }
                both.add(all.states());
            }
        }
        assertEquals(both.getFirst().keySet(), both.getLast().keySet());
        both.getFirst()
                .forEach((name, expected) ->
                        assertArrayEquals(expected, both.getLast().get(name), name));
    }

    static Stream<Named<Supplier<Device>>> devices() {
        return Stream.of(Named.of("processor", () -> CpuDevice.of(2)), Named.of("GPU", () -> TestGpus.hostDevice(90)));
    }

    @ParameterizedTest
    @MethodSource("devices")
    void an_expert_that_no_token_reaches_keeps_its_scale_and_history(Supplier<Device> made) {
        float[] x = random(ROWS, IN, 0);
        float[] dy = random(ROWS, OUT, 10);
        float[] without = {0, 29, 29, 69, 70};
        float[] with = {0, 20, 29, 69, 70};
        try (Device device = made.get();
                Experts all = new Experts(device, policy(DELAYED))) {
            all.step(with, x, dy);
            List<String> states = List.of(
                    "fp8.expert.1.input.quant_scale",
                    "fp8.expert.1.input.amax_history",
                    "fp8.expert.1.grad_output.quant_scale",
                    "fp8.expert.1.grad_output.amax_history");
            List<float[]> before = states.stream().map(all::state).toList();
            float[] other = all.state("fp8.expert.0.input.amax_history");
            assertNotEquals(1f, before.getFirst()[0], "its scale has moved with its first rows");
            all.step(without, x, dy);
            for (int i = 0; i < states.size(); i++) {
                assertArrayEquals(before.get(i), all.state(states.get(i)), states.get(i));
            }
            assertNotEquals(
                    Arrays.toString(other), Arrays.toString(all.state("fp8.expert.0.input.amax_history")), "rolled");
        }
    }

    @Test
    void all_experts_of_a_step_are_layers_in_fp8() {
        Fp8Choice choice = policy(DELAYED).fp8(model().graph());
        assertEquals(
                List.of("expert.0", "expert.1", "expert.2", "expert.3"),
                choice.layers().stream().map(Fp8Layer::node).toList());
        assertEquals(List.of(), choice.kept());
    }

    @Test
    void experts_that_are_not_to_be_computed_alike_are_kept_with_a_reason() {
        LayerOverride one = new LayerOverride(Pattern.compile("expert\\.2"), false, null, null, null, Map.of());
        Fp8Settings settings = new Fp8Settings(
                DELAYED, Set.of(), false, true, false, false, LayerFilter.NONE, Map.of(), List.of(one), Map.of());
        Fp8Choice choice = new Fp8Policy(Autocast.bf16(), settings).fp8(model().graph());
        assertEquals(List.of(), choice.layers());
        assertEquals(EXPERTS, choice.kept().size());
        assertTrue(
                choice.kept().stream()
                        .anyMatch(k -> k.node().equals("expert.0")
                                && k.reason().equals("experts are computed as one, and others are not to be as it is")),
                choice.kept().toString());
    }
}
