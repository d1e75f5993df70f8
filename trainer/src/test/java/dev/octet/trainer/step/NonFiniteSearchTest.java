package dev.octet.trainer.step;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;

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
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Two layers, {@code y = second(gelu(first(x)))}, with numbers planted that a product makes infinite. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NonFiniteSearchTest {
    private static final int N = 16;
    private static final float HUGE = 1e30f;
    private static final Arena ARENA = Arena.ofAuto();

    private static float[] filled(int n, float x) {
        float[] all = new float[n];
        Arrays.fill(all, x);
        return all;
    }

    private static ValueInfo value(String name) {
        return new ValueInfo(name, new TensorType(DType.F32, List.of(Dim.of(N), Dim.of(N))));
    }

    private static GraphModel model() {
        Node first = Node.of("first", "Linear", Node.OCTET_DOMAIN, List.of("x", "w1"), List.of("h"));
        Node act = Node.of("act", "Gelu", List.of("h"), List.of("a"));
        Node second = Node.of(
                "second", "Linear", Node.OCTET_DOMAIN, List.of("a", "w2"), List.of("y"), Attribute.of("transB", 1));
        List<Initializer> weights = List.of("w1", "w2").stream()
                .map(w -> Initializer.of(Tensor.ofFloats(ARENA, w, Shape.of(N, N), new float[N * N])))
                .toList();
        return GraphModel.of(
                Graph.of("g", List.of(first, act, second), weights, List.of(value("x")), List.of(value("y"))), 10, 21);
    }

    private static PrecisionPolicy policy(String name) {
        return switch (name) {
            case "fp32" -> PrecisionPolicy.FP32;
            case "bf16" -> Autocast.bf16();
            case "current" -> new Fp8Policy(Autocast.fp32(), Fp8Settings.of(TrainingRecipe.CurrentScaling.DEFAULT));
            case "tensorwise" -> new Fp8Policy(Autocast.bf16(), Fp8Settings.of(new TrainingRecipe.Tensorwise(false)));
            case "block" -> new Fp8Policy(Autocast.bf16(), Fp8Settings.of(TrainingRecipe.BlockScaling.DEFAULT));
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static String where(String policy, float x, float w1, float w2, float dy) {
        Set<String> weights = Set.of("w1", "w2");
        Program program = Autodiff.program(
                model(), new ProgramOptions(List.of("y"), null, Set.of("y"), weights, weights, policy(policy)));
        try (Device device = CpuDevice.of(1);
                Memory memory = device.allocate(program.lasting());
                Executable running = device.load(program, memory)) {
            for (Value v : program.lasting()) {
                if (weights.contains(v.name())) {
                    memory.write(v, bytes(v.name().equals("w1") ? w1 : w2));
                }
            }
            running.feed(requireNonNull(program.inputs().get("x")), bytes(x));
            Value upstream = requireNonNull(program.inputs().get(Program.UPSTREAM + "y"));
            Tensor up = Tensor.ofFloats(ARENA, "dy", Shape.of(N, N), filled(N * N, dy));
            running.feed(upstream, upstream.type().dtype() == DType.BF16 ? narrow(up) : up.bytes());
            NonFiniteSearch search = new NonFiniteSearch();
            running.observe(search);
            for (Phase phase : List.of(Phase.PREPARE, Phase.FORWARD, Phase.BACKWARD)) {
                running.run(phase);
            }
            return search.where().orElse("nowhere");
        }
    }

    private static MemorySegment bytes(float x) {
        return Tensor.ofFloats(ARENA, "t", Shape.of(N, N), filled(N * N, x)).bytes();
    }

    /** BF16 is the upper half of F32. */
    private static MemorySegment narrow(Tensor f32) {
        MemorySegment narrow = ARENA.allocate(2L * N * N);
        for (int i = 0; i < N * N; i++) {
            MemorySegment.copy(f32.bytes(), 4L * i + 2, narrow, 2L * i, 2);
        }
        return narrow;
    }

    @ParameterizedTest
    @CsvSource({"fp32, Linear", "bf16, Linear", "current, Fp8Linear", "tensorwise, Fp8Linear", "block, Fp8Linear"})
    void an_infinity_is_found_where_a_product_makes_it(String policy, String op) {
        assertEquals("node 'first', " + op + ", forward (fprop): Infinity", where(policy, HUGE, HUGE, 1, 1));
        assertEquals("node 'second', " + op + ", forward (fprop): Infinity", where(policy, 1, HUGE, HUGE, 1));
        assertEquals(
                "node 'second', " + op + ", gradient of input 0 (dgrad): Infinity", where(policy, 1, 1, HUGE, HUGE));
        assertEquals(
                "node 'second', " + op + ", gradient of input 1 (wgrad): Infinity",
                where(policy, 1, HUGE, 1e-30f, HUGE));
        assertEquals(
                "node 'first', " + op + ", gradient of input 1 (wgrad): Infinity",
                where(policy, HUGE, 1e-30f, 1e20f, 1));
    }

    @ParameterizedTest
    @CsvSource({"fp32, Linear", "bf16, Linear", "current, Fp8Linear", "tensorwise, Fp8Linear"})
    void a_weight_that_is_no_number_is_found_in_the_layer_that_reads_it(String policy, String op) {
        assertEquals("node 'second', " + op + ", forward (fprop): NaN", where(policy, 1, 1, Float.NaN, 1));
    }

    @Test
    void nothing_is_found_where_all_is_finite() {
        assertEquals("nowhere", where("current", 1, 1, 1, 1));
    }
}
