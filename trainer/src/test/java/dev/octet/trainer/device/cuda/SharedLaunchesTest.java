package dev.octet.trainer.device.cuda;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
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
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.kernel.CudaFusion;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.op.GpuFusions;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Launches that steps share because nothing needs their results before the phase ends: sums of biases' and norms' gradients; roundings of biases. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("emulated")
class SharedLaunchesTest {
    private static final Arena ARENA = Arena.ofAuto();
    private static final int ROWS = 100; // no whole number of tiles
    private static final int WIDTH = 32;

    private static PrecisionPolicy policy(String precision) {
        return precision.equals("fp8")
                ? new Fp8Policy(Autocast.bf16(), Fp8Settings.of(DelayedScaling.DEFAULT))
                : precision.equals("bf16") ? Autocast.bf16() : PrecisionPolicy.FP32;
    }

    /**
     * Linears with biases, a norm behind each.
     *
     * @param biases names of the Linears' biases
     */
    private static Program layers(PrecisionPolicy policy, String... biases) {
        List<Node> nodes = new ArrayList<>();
        Map<String, Shape> weights = new TreeMap<>();
        String x = "x";
        for (int layer = 0; layer < biases.length; layer++) {
            weights.put("w" + layer, Shape.of(WIDTH, WIDTH));
            weights.put("gain" + layer, Shape.of(WIDTH));
            weights.put("shift" + layer, Shape.of(WIDTH));
            weights.put(biases[layer], Shape.of(WIDTH));
            nodes.add(node("Linear", List.of(x, "w" + layer, biases[layer]), "h" + layer));
            nodes.add(node("LayerNormalization", List.of("h" + layer, "gain" + layer, "shift" + layer), "y" + layer));
            x = "y" + layer;
        }
        nodes.add(node("Mul", List.of(x, x), "squares"));
        nodes.add(node("ReduceMean", List.of("squares"), "loss", Attribute.of("keepdims", 0L)));
        List<Initializer> initial = new ArrayList<>();
        weights.forEach((name, shape) -> initial.add(
                Initializer.of(Tensor.ofFloats(ARENA, name, shape, numbers(name.hashCode(), shape.elementCount())))));
        Graph graph = Graph.of(
                "g",
                nodes,
                initial,
                List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(Dim.of(ROWS), Dim.of(WIDTH))))),
                List.of(new ValueInfo("loss", new TensorType(DType.F32, List.of()))));
        Set<String> names = new TreeSet<>(weights.keySet());
        return Autodiff.program(GraphModel.of(graph, 10, 23), ProgramOptions.training("loss", names, names, policy));
    }

    private static Node node(String type, List<String> inputs, String output, Attribute... attributes) {
        String domain = type.equals("Linear") ? Node.OCTET_DOMAIN : "";
        return Node.of(output, type, domain, inputs, List.of(output), attributes);
    }

    private static float[] numbers(long seed, long count) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] numbers = new float[(int) count];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = (float) random.nextDouble(-1, 1);
        }
        return numbers;
    }

    private static MemorySegment bytes(Value value) {
        return Tensor.ofFloats(
                        ARENA,
                        value.name(),
                        value.type().shape(),
                        numbers(value.name().hashCode(), value.type().count()))
                .bytes();
    }

    /** Gradients behind two micro-batches. */
    private static Map<String, byte[]> run(
            Program program, Gpu gpu, List<CudaFusion> fusions, @Nullable StepObserver observer) {
        Map<String, byte[]> results = new TreeMap<>();
        try (Device device = new CudaDevice(gpu, fusions);
                Memory memory = device.allocate(program.lasting());
                Executable executable = device.load(program, memory)) {
            program.lasting().stream()
                    .filter(v -> v.role() == ValueRole.PARAMETER)
                    .forEach(v -> memory.write(v, bytes(v)));
            program.inputs().values().forEach(v -> executable.feed(v, bytes(v)));
            executable.observe(observer);
            executable.run(Phase.PREPARE);
            for (int i = 0; i < 2; i++) {
                executable.run(Phase.FORWARD);
                executable.run(Phase.BACKWARD);
            }
            for (Value v : program.lasting()) {
                if (v.role() == ValueRole.GRADIENT || v.role() == ValueRole.STATE) {
                    results.put(v.name(), read(v, executable));
                }
            }
        }
        return results;
    }

    private static byte[] read(Value value, Executable executable) {
        MemorySegment bytes = ARENA.allocate(value.type().byteSize(), 8);
        executable.read(value, bytes);
        return bytes.toArray(ValueLayout.JAVA_BYTE);
    }

    private static void assertSame(Map<String, byte[]> expected, Map<String, byte[]> actual) {
        assertEquals(expected.keySet(), actual.keySet());
        expected.forEach((name, bytes) -> assertArrayEquals(bytes, actual.get(name), name));
    }

    private static long count(List<String> launches, String kernel) {
        return launches.stream().filter(kernel::equals).count();
    }

    @ParameterizedTest
    @ValueSource(strings = {"fp32", "bf16", "fp8"})
    void shared_launches_give_the_bits_of_launches_one_by_one(String precision) {
        Program program = layers(policy(precision), "a", "b", "c");
        Launches alone = new Launches(TestGpus.host());
        Map<String, byte[]> expected = run(program, alone, List.of(), null);
        Launches shared = new Launches(TestGpus.host());
        assertSame(expected, run(program, shared, GpuFusions.ALL, null));
        assertTrue(count(alone.names, "column_joins") > count(shared.names, "column_joins"), shared.names::toString);
    }

    /** Two rows of parts for 100 rows in the Linears, a piece for each eight rows in the norms: two launches for each micro-batch. */
    @Test
    void sums_of_as_many_parts_are_one_launch_behind_backward() {
        Launches launches = new Launches(TestGpus.host());
        run(layers(policy("fp8"), "a", "b", "c"), launches, GpuFusions.ALL, null);
        assertEquals(2 * 2, count(launches.names, "column_joins"), launches.names::toString);
        assertEquals(0, count(launches.names, "norm_weights") + count(launches.names, "norm_biases"));
    }

    @Test
    void biases_are_rounded_together_before_forward() {
        Launches launches = new Launches(TestGpus.host());
        run(layers(policy("fp8"), "a", "b", "c"), launches, GpuFusions.ALL, null);
        assertEquals(2, count(launches.names, "round_rows"), launches.names::toString);
        List<String> products = launches.names.stream()
                .filter(name -> name.startsWith("product") || name.equals("round_rows"))
                .toList();
        assertEquals("round_rows", products.getFirst());
    }

    /** As layers of ALBERT have it: each adds to the same sum. */
    @ParameterizedTest
    @ValueSource(strings = {"bf16", "fp8"})
    void a_bias_of_several_layers_is_summed_in_their_order(String precision) {
        Program program = layers(policy(precision), "a", "b", "a", "a");
        Launches launches = new Launches(TestGpus.host());
        assertSame(run(program, TestGpus.host(), List.of(), null), run(program, launches, GpuFusions.ALL, null));
        assertTrue(count(launches.names, "column_joins") >= 2 * 3, launches.names::toString);
    }

    /** As ranks do that exchange a gradient as soon as it is there. */
    @ParameterizedTest
    @ValueSource(strings = {"bf16", "fp8"})
    void who_looks_on_sees_a_sum_behind_the_step_that_adds_to_it(String precision) {
        Program program = layers(policy(precision), "a", "b", "c");
        Map<String, byte[]> last = new HashMap<>();
        StepObserver observer = (step, nanos, running) -> {
            for (Value v : step.results()) {
                if (v != null && v.role() == ValueRole.GRADIENT) {
                    last.put(v.name(), read(requireNonNull(v), running));
                }
            }
        };
        Map<String, byte[]> results = run(program, TestGpus.host(), GpuFusions.ALL, observer);
        assertTrue(last.size() >= 4 * 3, last.keySet()::toString);
        last.forEach((name, bytes) -> assertArrayEquals(results.get(name), bytes, name));
        assertSame(run(program, TestGpus.host(), GpuFusions.ALL, null), results);
    }

    /** Remembers works in the order in which they run. */
    private static final class Launches extends ForwardingGpu {
        private final List<String> names = Collections.synchronizedList(new ArrayList<>());

        Launches(Gpu gpu) {
            super(gpu);
        }

        private Work remembering(Work work, String name) {
            return telling(work, () -> names.add(name));
        }

        @Override
        public Work product(CudaProduct product) {
            return remembering(super.product(product), product.name());
        }

        @Override
        public Work launch(CudaSource source, String kernel, Grid grid, List<Object> arguments) {
            return remembering(super.launch(source, kernel, grid, arguments), kernel);
        }
    }
}
