package dev.octet.trainer.op.stored;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
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
import dev.octet.quant.layout.CodedWeight;
import dev.octet.quant.layout.WeightForm;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.autodiff.StoredWeights;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.LongStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Whole programs over stored weights: a table that is also the output layer, and a Linear, with a trained weight between them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StoredProgramTest {
    private static final Arena ARENA = Arena.ofAuto();
    private static final int VOCABULARY = 12;
    private static final int WIDTH = 32;

    private static CodedWeight coded(String name, String form, int rows) {
        StoredMatrix matrix = requireNonNull(StoredForms.of(rows, WIDTH).get(form));
        WeightForm of = ((StoredMatrix.Codes) matrix).form();
        List<MemorySegment> bytes = StoredForms.random(matrix, name.hashCode()).stream()
                .map(StoredProgramTest::bytes)
                .toList();
        return new CodedWeight(name, of, bytes.get(0), bytes.get(1), null);
    }

    private static MemorySegment bytes(double[] numbers) {
        MemorySegment bytes = ARENA.allocate(numbers.length, 64);
        for (int i = 0; i < numbers.length; i++) {
            bytes.set(ValueLayout.JAVA_BYTE, i, (byte) (int) numbers[i]);
        }
        return bytes;
    }

    private static Node linear(String x, String w, String y) {
        return Node.of(y, "Linear", Node.OCTET_DOMAIN, List.of(x, w), List.of(y), Attribute.of("transB", 1));
    }

    private static ValueInfo info(String name, DType type, long... dims) {
        return new ValueInfo(
                name, new TensorType(type, LongStream.of(dims).mapToObj(Dim::of).toList()));
    }

    private static GraphModel model(boolean dense) {
        List<CodedWeight> coded = List.of(coded("table", "MXFP8", VOCABULARY), coded("w", "NVFP4", WIDTH));
        float[] eye = new float[WIDTH * WIDTH];
        for (int i = 0; i < WIDTH; i++) {
            eye[i * WIDTH + i] = 0.1f;
        }
        Initializer trained = Initializer.of(Tensor.ofFloats(ARENA, "v", Shape.of(WIDTH, WIDTH), eye));
        List<Initializer> constants = new ArrayList<>(List.of(trained));
        coded.forEach(c -> constants.add(dense ? Initializer.of(Parameters.decoded(c)) : Initializer.of(c)));
        Graph graph = Graph.of(
                "g",
                List.of(
                        Node.of("e", "Gather", List.of("table", "ids"), List.of("e")),
                        linear("e", "v", "a"),
                        linear("a", "w", "b"),
                        linear("b", "table", "y")),
                constants,
                List.of(info("ids", DType.I64, 3)),
                List.of(info("y", DType.F32, 3, VOCABULARY)));
        return GraphModel.of(graph, 10, 21).withOpset(Node.OCTET_DOMAIN, 1, 10);
    }

    private static Program program(GraphModel model, boolean stored) {
        Set<String> trained = Set.of("v");
        ProgramOptions options = new ProgramOptions(
                List.of("y"), null, Set.of("y"), trained, Set.of("v", "w", "table"), PrecisionPolicy.FP32);
        return Autodiff.program(model, stored ? options.withStored(StoredWeights.of(model.graph(), trained)) : options);
    }

    @SuppressWarnings("ArrayRecordComponent") // read once, never compared
    private record Results(float[] y, float[] dv) {}

    private static Results run(Program program, GraphModel model, Device device) {
        try (device;
                Memory memory = device.allocate(List.of());
                Executable running = device.load(program, memory)) {
            for (Value v : program.lasting()) {
                if (v.role() == ValueRole.PARAMETER) {
                    Initializer c = requireNonNull(model.graph().initializers().get(v.name()));
                    memory.write(v, c.tensor().orElseThrow().bytes());
                }
                if (v.role() == ValueRole.GRADIENT) {
                    memory.zero(v);
                }
            }
            running.run(Phase.PREPARE);
            running.feed(
                    requireNonNull(program.inputs().get("ids")),
                    Tensor.ofLongs(ARENA, "ids", Shape.of(3), 11, 0, -2).bytes());
            float[] up = new float[3 * VOCABULARY];
            for (int i = 0; i < up.length; i++) {
                up[i] = (i % 7 - 3) / 4f;
            }
            running.feed(
                    requireNonNull(program.inputs().get(Program.UPSTREAM + "y")),
                    Tensor.ofFloats(ARENA, "up", Shape.of(3, VOCABULARY), up).bytes());
            running.run(Phase.FORWARD);
            Tensor y = Tensor.ofFloats(ARENA, "y", Shape.of(3, VOCABULARY), new float[3 * VOCABULARY]);
            running.read(requireNonNull(program.outputs().get("y")), y.bytes());
            running.run(Phase.BACKWARD);
            Tensor dv = Tensor.ofFloats(ARENA, "dv", Shape.of(WIDTH, WIDTH), new float[WIDTH * WIDTH]);
            memory.read(requireNonNull(program.gradients().get("v")), dv.bytes());
            return new Results(y.toFloats(), dv.toFloats());
        }
    }

    private static float largest(float[] x) {
        float largest = 0;
        for (float v : x) {
            largest = Math.max(largest, Math.abs(v));
        }
        return largest;
    }

    private static void assertNear(Supplier<Device> device) {
        GraphModel dense = model(true);
        Results expected = run(program(dense, false), dense, device.get());
        Results actual = run(program(model(false), true), model(false), device.get());
        assertTrue(largest(expected.dv()) > 0);
        assertArrayEquals(expected.y(), actual.y(), 1e-6f * largest(expected.y()));
        assertArrayEquals(expected.dv(), actual.dv(), 1e-6f * largest(expected.dv()));
    }

    @Test
    void a_processor_computes_what_it_does_with_dequantised_weights() {
        assertNear(() -> CpuDevice.of(2));
    }

    @Test
    void the_reference_computes_what_it_does_with_dequantised_weights() {
        assertNear(ReferenceDevice::new);
    }

    @Tag("kernels")
    @Test
    void the_kernels_of_gpus_compute_what_they_do_with_dequantised_weights() {
        assertNear(TestGpus::hostDevice);
    }

    @Test
    void two_readers_share_the_bytes_and_no_value_is_as_large_as_a_weight_in_floats() {
        Program program = program(model(false), true);
        Map<Value, Tensor> stored = program.stored();
        assertEquals(4, stored.size()); // codes and scales of two weights
        long bytes = VOCABULARY * WIDTH + VOCABULARY * (WIDTH / 32) + WIDTH * WIDTH / 2 + WIDTH * (WIDTH / 16);
        assertEquals(bytes, MemoryPlan.bytes(program, ValueRole.STORED));
        assertEquals(4L * WIDTH * WIDTH, MemoryPlan.bytes(program, ValueRole.PARAMETER)); // the trained one alone
        for (Value v : program.values()) {
            boolean small = v.type().count() <= 3 * WIDTH;
            assertTrue(small || v.role() == ValueRole.STORED || v.name().endsWith("v"), v.toString());
        }
        stored.forEach((v, t) -> assertSame(DType.U8, t.dtype(), v.name()));
    }
}
