package dev.octet.trainer.autodiff;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
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
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AutodiffTest {
    private static final Arena ARENA = Arena.ofAuto();

    private static ValueInfo f32(String name, long... dims) {
        List<Dim> all = new ArrayList<>();
        for (long d : dims) {
            all.add(d < 0 ? Dim.of("batch") : Dim.of(d));
        }
        return new ValueInfo(name, new TensorType(DType.F32, all));
    }

    private static Node softmax(String x, String y) {
        return Node.of("make_" + y, "Softmax", List.of(x), List.of(y));
    }

    private static GraphModel model(List<Node> nodes, List<ValueInfo> inputs, List<String> outputs, Tensor... weights) {
        List<Initializer> initializers = new ArrayList<>();
        for (Tensor t : weights) {
            initializers.add(Initializer.of(t));
        }
        return GraphModel.of(
                Graph.of(
                        "g",
                        nodes,
                        initializers,
                        inputs,
                        outputs.stream().map(o -> f32(o, 2, 3)).toList()),
                10,
                21);
    }

    private static ProgramOptions upstream(Set<String> outputs, Set<String> trained) {
        return new ProgramOptions(List.copyOf(outputs), null, outputs, trained, Set.of(), PrecisionPolicy.FP32);
    }

    private static Tensor floats(String name, float... values) {
        return Tensor.ofFloats(ARENA, name, Shape.of(2, 3), values);
    }

    private static final Tensor X = floats("x", 0.5f, -1, 2, 0.25f, 1, -3);
    private static final Tensor UP = floats("u", 1, 2, 3, -1, 0.5f, 4);

    /** Runs forward and backward for each of {@code batches} and returns the summed gradient of x. */
    private static float[] gradientOfX(Device device, Program program, int batches) {
        try (Memory memory = device.allocate(program.lasting());
                Executable running = device.load(program, memory)) {
            running.run(Phase.PREPARE);
            for (int b = 0; b < batches; b++) {
                program.inputs().forEach((name, v) -> running.feed(v, (name.equals("x") ? X : UP).bytes()));
                running.run(Phase.FORWARD);
                running.run(Phase.BACKWARD);
            }
            Value gradient = requireNonNull(program.gradients().get("x"));
            Tensor out = floats("g", new float[6]);
            memory.read(gradient, out.bytes());
            return out.toFloats();
        }
    }

    private static double[] softmaxBackward(float[] x, double[] up) {
        double[] gradient = new double[x.length];
        for (int row = 0; row < x.length; row += 3) {
            double sum = 0;
            double dot = 0;
            for (int i = row; i < row + 3; i++) {
                sum += Math.exp(x[i]);
                dot += Math.exp(x[i]) * up[i];
            }
            for (int i = row; i < row + 3; i++) {
                gradient[i] = Math.exp(x[i]) / sum * (up[i] - dot / sum);
            }
        }
        return gradient;
    }

    private static void assertNear(double[] expected, float[] actual, double factor) {
        for (int i = 0; i < expected.length; i++) {
            assertEquals(expected[i] * factor, actual[i], 2e-6, "element " + i);
        }
    }

    private static double[] doubles(float[] x) {
        double[] all = new double[x.length];
        for (int i = 0; i < x.length; i++) {
            all[i] = x[i];
        }
        return all;
    }

    /** s = softmax x; r = s + x; t = r + s; y = t + t: every gradient stands for another's at some place, and none may be spoilt. */
    @Test
    void addends_take_over_the_gradient_of_the_sum_without_a_step() {
        GraphModel model = model(
                List.of(
                        softmax("x", "s"),
                        Node.of("r", "Add", List.of("s", "x"), List.of("r")),
                        Node.of("t", "Add", List.of("r", "s"), List.of("t")),
                        Node.of("y", "Add", List.of("t", "t"), List.of("y"))),
                List.of(f32("x", 2, 3)),
                List.of("y"));
        Program program = Autodiff.program(model, upstream(Set.of("y"), Set.of("x")));
        assertTrue(
                program.steps().stream()
                        .noneMatch(s -> s.backward() && s.op().type().equals("Add")),
                program.toString());
        double[] up = doubles(UP.toFloats());
        double[] expected =
                softmaxBackward(X.toFloats(), Arrays.stream(up).map(u -> 4 * u).toArray());
        for (int i = 0; i < expected.length; i++) {
            expected[i] += 2 * up[i];
        }
        try (Device cpu = CpuDevice.of(2);
                Device reference = new ReferenceDevice()) {
            for (int batches = 1; batches < 3; batches++) {
                assertNear(expected, gradientOfX(cpu, program, batches), batches);
                assertNear(expected, gradientOfX(reference, program, batches), batches);
            }
        }
    }

    @Test
    void contributions_of_several_readers_and_micro_batches_are_summed() {
        GraphModel model = model(
                List.of(softmax("x", "a"), softmax("x", "b"), softmax("x", "c")),
                List.of(f32("x", 2, 3)),
                List.of("a", "b", "c"));
        Program program = Autodiff.program(model, upstream(Set.of("a", "b", "c"), Set.of("x")));
        double[] one = softmaxBackward(X.toFloats(), doubles(UP.toFloats()));
        try (Device cpu = CpuDevice.of(2);
                Device reference = new ReferenceDevice()) {
            assertNear(one, gradientOfX(cpu, program, 1), 3);
            assertNear(one, gradientOfX(cpu, program, 2), 6);
            assertNear(one, gradientOfX(reference, program, 2), 6);
        }
    }

    @Test
    void an_inner_value_with_several_readers_gets_the_sum_too() {
        GraphModel model = model(
                List.of(softmax("x", "a"), softmax("a", "b"), softmax("a", "c")),
                List.of(f32("x", 2, 3)),
                List.of("a", "b", "c"));
        Program program = Autodiff.program(model, upstream(Set.of("a", "b", "c"), Set.of("x")));
        float[] x = X.toFloats();
        float[] a = new float[6];
        for (int row = 0; row < 6; row += 3) {
            double sum = Math.exp(x[row]) + Math.exp(x[row + 1]) + Math.exp(x[row + 2]);
            for (int i = row; i < row + 3; i++) {
                a[i] = (float) (Math.exp(x[i]) / sum);
            }
        }
        double[] inner = softmaxBackward(a, doubles(UP.toFloats()));
        for (int i = 0; i < 6; i++) {
            inner[i] = 2 * inner[i] + UP.toFloats()[i];
        }
        try (Device cpu = CpuDevice.of(1)) {
            assertNear(softmaxBackward(x, inner), gradientOfX(cpu, program, 1), 1);
            // what the caller fed is not added to
            assertNear(softmaxBackward(x, inner), gradientOfX(cpu, program, 3), 3);
        }
    }

    /** m = v·w reads what z = v looks at: through y = (m + z) + h the gradients of z, v and h begin as that of y. */
    @Test
    void a_product_does_not_add_to_a_gradient_that_stands_for_anothers() {
        GraphModel model = model(
                List.of(
                        softmax("x", "h"),
                        Node.of("v", "Reshape", List.of("h", "shape"), List.of("v")),
                        Node.of("m", "MatMul", List.of("v", "w"), List.of("m")),
                        Node.of("z", "Reshape", List.of("v", "shape"), List.of("z")),
                        Node.of("s", "Add", List.of("m", "z"), List.of("s")),
                        Node.of("y", "Add", List.of("s", "h"), List.of("y"))),
                List.of(f32("x", 2, 3)),
                List.of("y"),
                Tensor.ofLongs(ARENA, "shape", Shape.of(2), 2, 3),
                Tensor.ofFloats(ARENA, "w", Shape.of(3, 3), 0, 2, 0, 0, 0, 3, 5, 0, 0));
        Program program = Autodiff.program(model, upstream(Set.of("y"), Set.of("x")));
        double[] up = doubles(UP.toFloats());
        double[] inner = new double[6];
        for (int row = 0; row < 6; row += 3) {
            inner[row] = 2 * up[row] + 2 * up[row + 1];
            inner[row + 1] = 2 * up[row + 1] + 3 * up[row + 2];
            inner[row + 2] = 2 * up[row + 2] + 5 * up[row];
        }
        try (Device cpu = CpuDevice.of(1)) {
            assertNear(softmaxBackward(X.toFloats(), inner), gradientOfX(cpu, program, 1), 1);
        }
    }

    @Test
    void only_what_lies_between_parameter_and_output_gets_a_backward_step() {
        GraphModel model = model(
                List.of(softmax("x", "a"), softmax("w", "b"), softmax("a", "unused")),
                List.of(f32("x", 2, 3)),
                List.of("a", "b"),
                floats("w", 1, 2, 3, 4, 5, 6));
        Program program = Autodiff.program(model, upstream(Set.of("a", "b"), Set.of("w")));
        assertEquals(2, program.steps(Phase.FORWARD).size());
        assertEquals(
                List.of("make_b"),
                program.steps(Phase.BACKWARD).stream()
                        .filter(s -> s.backward())
                        .map(s -> s.node())
                        .toList());
        assertEquals(Set.of("w"), program.gradients().keySet());
    }

    @Test
    void the_same_graph_gives_the_same_text_and_digest() {
        GraphModel model = model(List.of(softmax("x", "a"), softmax("a", "b")), List.of(f32("x", 2, 3)), List.of("b"));
        ProgramOptions options = upstream(Set.of("b"), Set.of("x"));
        Program one = Autodiff.program(model, options);
        assertEquals(one.text(), Autodiff.program(model, options).text());
        assertEquals(64, one.digest().length());
        Program other = Autodiff.program(model, upstream(Set.of("b"), Set.of("a")));
        assertTrue(!one.digest().equals(other.digest()));
    }

    @Test
    void all_unknown_operators_are_named_before_anything_runs() {
        GraphModel model = model(
                List.of(
                        Node.of("n1", "Mystery", List.of("x"), List.of("a")),
                        Node.of("n2", "Riddle", List.of("a"), List.of("b")),
                        Node.of("n3", "Mystery", List.of("b"), List.of("c"))),
                List.of(f32("x", 2, 3)),
                List.of("c"));
        UnsupportedModelException e = assertThrows(
                UnsupportedModelException.class, () -> Autodiff.program(model, upstream(Set.of("c"), Set.of("x"))));
        assertTrue(e.what().contains("Mystery, Riddle"), e.what());
        assertTrue(e.where().contains("'n1', 'n3'") && e.where().contains("'n2'"), e.where());
    }

    @Test
    void refusals_of_several_operators_come_together() {
        Attribute axis = new Attribute("axis", new Attribute.OfInt(7));
        GraphModel model = model(
                List.of(
                        Node.of("n1", "Softmax", List.of("x"), List.of("a"), axis),
                        Node.of("n2", "Softmax", List.of("x"), List.of("b"), axis)),
                List.of(f32("x", 2, 3)),
                List.of("a", "b"));
        UnsupportedModelException e = assertThrows(
                UnsupportedModelException.class,
                () -> Autodiff.program(model, upstream(Set.of("a", "b"), Set.of("x"))));
        assertTrue(e.where().contains("n1") && e.where().contains("n2"), e.where());
    }

    @Test
    void an_open_dimension_is_named() {
        GraphModel model = model(List.of(softmax("x", "a")), List.of(f32("x", -1, 3)), List.of("a"));
        UnsupportedModelException e = assertThrows(
                UnsupportedModelException.class, () -> Autodiff.program(model, upstream(Set.of("a"), Set.of("x"))));
        assertTrue(e.what().contains("batch"), e.what());
    }

    @Test
    void a_loss_of_more_than_one_number_is_refused() {
        GraphModel model = model(List.of(softmax("x", "a")), List.of(f32("x", 2, 3)), List.of("a"));
        assertThrows(
                InvalidOptionException.class,
                () -> Autodiff.program(
                        model, ProgramOptions.training("a", Set.of("x"), Set.of(), PrecisionPolicy.FP32)));
    }

    @Test
    void parameters_without_effect_are_refused() {
        GraphModel model = model(
                List.of(softmax("x", "a"), softmax("w", "b")),
                List.of(f32("x", 2, 3)),
                List.of("a", "b"),
                floats("w", 1, 2, 3, 4, 5, 6));
        assertThrows(InvalidDataException.class, () -> Autodiff.program(model, upstream(Set.of("a"), Set.of("w"))));
    }

    @Test
    void two_threads_give_the_bits_of_one() {
        GraphModel model = model(
                List.of(softmax("x", "a"), softmax("a", "b"), softmax("x", "c")),
                List.of(f32("x", 2, 3)),
                List.of("b", "c"));
        Program program = Autodiff.program(model, upstream(Set.of("b", "c"), Set.of("x")));
        try (Device one = CpuDevice.of(1);
                Device two = CpuDevice.of(2)) {
            assertArrayEquals(gradientOfX(one, program, 1), gradientOfX(two, program, 1));
        }
    }
}
