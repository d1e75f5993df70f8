package dev.octet.converter.pass;

import static dev.octet.converter.pass.TinyGraphs.floats;
import static dev.octet.converter.pass.TinyGraphs.longs;
import static dev.octet.converter.pass.TinyGraphs.model;
import static dev.octet.converter.pass.TinyGraphs.only;
import static dev.octet.converter.pass.TinyGraphs.operators;
import static dev.octet.converter.pass.TinyGraphs.random;
import static dev.octet.converter.pass.TinyGraphs.rankless;
import static dev.octet.converter.pass.TinyGraphs.value;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Function;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OpsetUpgradeTest {
    private static final PassLog LOG = new PassLog();

    private static GraphModel upgrade(GraphModel m) {
        return new OpsetUpgrade().apply(m, LOG);
    }

    /** A model around one node: {@code inputs} are fed, {@code constants} are initializers. */
    record Case(String name, GraphModel model, List<Tensor> inputs) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static Case oneNode(
            String name, long opset, int outputs, List<Tensor> inputs, List<Tensor> constants, Node n) {
        List<ValueInfo> in = new ArrayList<>();
        for (Tensor t : inputs) {
            Object[] dims = new Object[t.shape().rank()];
            for (int i = 0; i < dims.length; i++) {
                dims[i] = t.shape().dim(i);
            }
            in.add(value(t.name(), t.dtype(), dims));
        }
        return new Case(name + " of opset " + opset, model(opset, in, outputs(n, outputs), constants, n), inputs);
    }

    private static List<ValueInfo> outputs(Node n, int count) {
        return n.outputs().subList(0, count).stream()
                .map(o -> new ValueInfo(o, null))
                .toList();
    }

    private static Case unary(String op, long opset, Tensor x, Attribute... attributes) {
        return oneNode(
                op + List.of(attributes).stream().map(Attribute::name).toList(),
                opset,
                1,
                List.of(x),
                List.of(),
                Node.of("n", op, List.of(x.name()), List.of("y"), attributes));
    }

    private static Attribute ints(String name, Long... values) {
        return Attribute.of(name, List.of(values));
    }

    /** One model at least for each rule of the table that ONNX Runtime can run in the old version. */
    static Stream<Case> old_models() {
        Tensor x = random("x", 2, 3, 4);
        Tensor image = random("image", 1, 2, 4, 4);
        List<Case> cases = new ArrayList<>();
        for (long axis = -3; axis <= 2; axis++) {
            for (String op : List.of("Softmax", "LogSoftmax", "Hardmax")) {
                if (axis >= 0) {
                    cases.add(unary(op, 9, x, Attribute.of("axis", axis)));
                }
                cases.add(unary(op, 11, x, Attribute.of("axis", axis)));
            }
        }
        cases.add(unary("Softmax", 11, x));
        cases.add(new Case(
                "Softmax of a tensor without rank",
                model(
                        11,
                        List.of(rankless("x", DType.F32)),
                        List.of(rankless("y", DType.F32)),
                        List.of(),
                        Node.of("n", "Softmax", List.of("x"), List.of("y"), Attribute.of("axis", 1))),
                List.of(x)));
        for (String kind :
                List.of("L1", "L2", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare", "LogSum")) {
            Tensor data = kind.equals("LogSum") ? floats("x", 1, 2, 3) : x;
            long last = data.shape().rank() - 1L;
            cases.add(unary("Reduce" + kind, 11, data, ints("axes", last)));
            cases.add(unary("Reduce" + kind, 12, data, ints("axes", -1L), Attribute.of("keepdims", 0)));
            cases.add(unary("Reduce" + kind, 12, data));
        }
        cases.add(unary("Unsqueeze", 9, x, ints("axes", 0L, 4L)));
        cases.add(unary("Unsqueeze", 11, x, ints("axes", -1L)));
        cases.add(unary("Squeeze", 11, random("x", 1, 3, 1), ints("axes", 0L, -1L)));
        cases.add(unary("Squeeze", 9, random("x", 1, 3, 1)));
        cases.add(unary("Slice", 9, x, ints("starts", 1L, -3L), ints("ends", 9L, 2L), ints("axes", 2L, 1L)));
        cases.add(unary("Slice", 9, x, ints("starts", 1L), ints("ends", 2L)));
        cases.add(unary("Pad", 9, x, ints("pads", 0L, 1L, 0L, 2L, 0L, 1L), Attribute.of("value", 1.5f)));
        cases.add(unary("Pad", 9, x, ints("pads", 0L, 1L, 0L, 0L, 0L, 1L), Attribute.of("mode", "reflect")));
        cases.add(unary("Clip", 9, x, Attribute.of("min", -1f)));
        cases.add(unary("Clip", 9, x, Attribute.of("max", 0.5f)));
        cases.add(unary("Clip", 9, x, Attribute.of("min", -1f), Attribute.of("max", 0.5f)));
        cases.add(unary("Clip", 9, x));
        cases.add(unary("Dropout", 9, x, Attribute.of("ratio", 0.3f)));
        cases.add(unary("Dropout", 11, x));
        cases.add(unary("ArgMax", 9, x, Attribute.of("axis", 1)));
        cases.add(unary("Flatten", 9, x, Attribute.of("axis", 2)));
        cases.add(unary("MaxPool", 9, image, ints("kernel_shape", 2L, 2L), ints("strides", 2L, 2L)));
        cases.add(unary("DepthToSpace", 9, random("image", 1, 4, 2, 2), Attribute.of("blocksize", 2)));
        Node split = Node.of("n", "Split", List.of("x"), List.of("a", "b"), Attribute.of("axis", 2));
        cases.add(oneNode("Split in halves", 11, 2, List.of(x), List.of(), split));
        cases.add(oneNode("Split by sizes", 11, 2, List.of(x), List.of(), split.with(ints("split", 1L, 3L))));
        cases.add(oneNode("Split in halves", 13, 2, List.of(x), List.of(), split));
        Node topK = Node.of("n", "TopK", List.of("x"), List.of("a", "b"), Attribute.of("k", 2));
        cases.add(oneNode("TopK", 9, 2, List.of(x), List.of(), topK));
        cases.add(oneNode(
                "BatchNormalization",
                9,
                1,
                List.of(image),
                List.of(floats("s", 1, 2), floats("b", 0, 1), floats("m", 0, .5f), floats("v", 1, 2)),
                Node.of("n", "BatchNormalization", List.of("image", "s", "b", "m", "v"), List.of("y"))));
        cases.add(oneNode(
                "Gemm",
                9,
                1,
                List.of(random("a", 2, 3)),
                List.of(random("w", 3, 4), floats("c", 1, 2, 3, 4)),
                Node.of("n", "Gemm", List.of("a", "w", "c"), List.of("y"))));
        for (String mode : List.of("nearest", "linear")) {
            Attribute m = Attribute.of("mode", mode);
            cases.add(oneNode(
                    "Upsample " + mode,
                    9,
                    1,
                    List.of(image),
                    List.of(floats("s", 1, 1, 2, 2.5f)),
                    Node.of("n", "Upsample", List.of("image", "s"), List.of("y"), m)));
            cases.add(oneNode(
                    "Resize up " + mode,
                    10,
                    1,
                    List.of(image),
                    List.of(floats("s", 1, 1, 1.5f, 2)),
                    Node.of("n", "Resize", List.of("image", "s"), List.of("y"), m)));
            cases.add(oneNode(
                    "Resize down " + mode,
                    10,
                    1,
                    List.of(image),
                    List.of(floats("s", 1, 1, .5f, .7f)),
                    Node.of("n", "Resize", List.of("image", "s"), List.of("y"), m)));
        }
        Tensor indices = TinyGraphs.longs("i", 2, 0);
        cases.add(oneNode(
                "Scatter",
                9,
                1,
                List.of(floats("data", 1, 2, 3)),
                List.of(indices, floats("u", 8, 9)),
                Node.of("n", "Scatter", List.of("data", "i", "u"), List.of("y"), Attribute.of("axis", 0))));
        cases.add(oneNode(
                "RoiAlign",
                10,
                1,
                List.of(image),
                List.of(
                        Tensor.ofFloats(Arena.ofAuto(), "rois", Shape.of(1, 4), 0, 0, 3, 3),
                        TinyGraphs.longs("batch", 0)),
                Node.of(
                        "n",
                        "RoiAlign",
                        List.of("image", "rois", "batch"),
                        List.of("y"),
                        Attribute.of("output_height", 2),
                        Attribute.of("output_width", 2))));
        for (String mode : List.of("bilinear", "nearest", "bicubic")) {
            cases.add(oneNode(
                    "GridSample " + mode,
                    16,
                    1,
                    List.of(image),
                    List.of(random("grid", 1, 3, 3, 2)),
                    Node.of("n", "GridSample", List.of("image", "grid"), List.of("y"), Attribute.of("mode", mode))));
        }
        cases.add(oneNode(
                "DFT",
                17,
                1,
                List.of(random("signal", 1, 8, 1)),
                List.of(),
                Node.of("n", "DFT", List.of("signal"), List.of("y"), Attribute.of("axis", 1))));
        cases.add(oneNode(
                "GroupNormalization",
                18,
                1,
                List.of(random("x4", 1, 4, 3)),
                List.of(floats("s", 1, 2), floats("b", 0, 1)),
                Node.of(
                        "n",
                        "GroupNormalization",
                        List.of("x4", "s", "b"),
                        List.of("y"),
                        Attribute.of("num_groups", 2))));
        return cases.stream();
    }

    @ParameterizedTest
    @MethodSource("old_models")
    void an_old_node_computes_the_same_bits_in_the_new_opset(Case c, @TempDir Path folder) throws Exception {
        GraphModel upgraded = upgrade(c.model());
        assertEquals(OpsetUpgrade.TARGET, upgraded.opset());
        assertTrue(upgraded.irVersion() >= 10);
        OnnxRuntimeOracle.assertSame(c.model(), upgraded, c.inputs(), folder);
    }

    @Test
    void a_softmax_over_the_last_axis_stays_one_node() {
        Node softmax = Node.of("n", "Softmax", List.of("x"), List.of("y"), Attribute.of("axis", 3));
        GraphModel m = model(
                11,
                List.of(value("x", DType.F32, "b", 2, "s", "s")),
                List.of(value("y", DType.F32)),
                List.of(),
                softmax);
        assertEquals(List.of("Softmax"), operators(upgrade(m)));
        assertEquals(-1, only(upgrade(m), "Softmax").intAttribute("axis", 0));
    }

    @Test
    void new_constants_take_names_that_nobody_has() {
        GraphModel m = model(
                11,
                List.of(value("x", DType.F32, 2)),
                List.of(value("z", DType.F32)),
                List.of(longs("y_axes", 2)),
                Node.of("n", "Unsqueeze", List.of("x"), List.of("y"), ints("axes", 0L)),
                Node.of("m", "Reshape", List.of("y", "y_axes"), List.of("z")));
        GraphModel up = upgrade(m);
        String axes = only(up, "Unsqueeze").input(1);
        assertEquals(List.of(0L), longs(up, axes));
        assertEquals(List.of(2L), longs(up, "y_axes"));
    }

    @Test
    void subgraphs_are_upgraded_with_what_is_known_outside(@TempDir Path folder) throws Exception {
        Graph then = Graph.of(
                "then",
                List.of(Node.of("t", "Softmax", List.of("x"), List.of("ty"), Attribute.of("axis", 1))),
                List.of(),
                List.of(),
                List.of(value("ty", DType.F32, 2, 3)));
        Graph otherwise = Graph.of(
                "else",
                List.of(Node.of("e", "ReduceSum", List.of("x"), List.of("ey"), ints("axes", 0L))),
                List.of(),
                List.of(),
                List.of(value("ey", DType.F32, 1, 3)));
        Node branch = Node.of(
                "if",
                "If",
                List.of("c"),
                List.of("y"),
                new Attribute("then_branch", new Attribute.OfGraph(then)),
                new Attribute("else_branch", new Attribute.OfGraph(otherwise)));
        Node truth = Node.of("cast", "Cast", List.of("flag"), List.of("c"), Attribute.of("to", 9));
        GraphModel m = model(
                11,
                List.of(value("x", DType.F32, 2, 3), value("flag", DType.I64)),
                List.of(rankless("y", DType.F32)),
                List.of(),
                truth,
                branch);
        GraphModel up = upgrade(m);
        List<Graph> bodies = only(up, "If").subgraphs();
        assertEquals(1, bodies.get(0).nodes().size());
        assertEquals(2, bodies.get(1).nodes().getFirst().inputs().size());
        for (long flag = 0; flag <= 1; flag++) {
            OnnxRuntimeOracle.assertSame(m, up, List.of(random("x", 2, 3), TinyGraphs.scalar("flag", flag)), folder);
        }
    }

    @Test
    void function_bodies_are_upgraded_by_their_own_version(@TempDir Path folder) throws Exception {
        Node mean = new Node(
                "m",
                "ReduceMean",
                "",
                "",
                List.of("a"),
                List.of("b"),
                Map.of("axes", new Attribute("axes", new Attribute.Reference("axes", 7))),
                "",
                Map.of(),
                Bytes.EMPTY);
        Function f = new Function(
                "own",
                "Mean",
                "",
                List.of("a"),
                List.of("b"),
                List.of("axes"),
                List.of(),
                List.of(mean),
                Map.of("", 17L),
                Map.of(),
                "",
                Map.of(),
                Bytes.EMPTY);
        Graph graph = Graph.of(
                "g",
                List.of(Node.of("call", "Mean", "own", List.of("x"), List.of("y"), ints("axes", 1L))),
                List.of(),
                List.of(value("x", DType.F32, 2, 3)),
                List.of(rankless("y", DType.F32)));
        GraphModel m = new GraphModel(
                8, Map.of("", 17L, "own", 1L), graph, List.of(f), GraphModel.Producer.NONE, Map.of(), Bytes.EMPTY);
        GraphModel up = upgrade(m);
        assertEquals(21, up.functions().getFirst().opsets().get(""));
        assertEquals(
                List.of("Constant", "ReduceMean"),
                up.functions().getFirst().nodes().stream().map(Node::opType).toList());
        OnnxRuntimeOracle.assertSame(m, up, List.of(random("x", 2, 3)), folder);
    }

    @Test
    void other_domains_are_left_alone() {
        Node own = Node.of("n", "Unsqueeze", "com.example", List.of("x"), List.of("y"), ints("axes", 0L));
        GraphModel m = model(11, List.of(value("x", DType.F32, 2)), List.of(value("y", DType.F32)), List.of(), own);
        assertSame(own, upgrade(m).graph().nodes().getFirst());
    }

    @Test
    void models_of_the_target_and_later_pass_through_untouched() {
        for (long opset = OpsetUpgrade.TARGET; opset <= OpsetUpgrade.NEWEST; opset++) {
            GraphModel m = model(
                    opset,
                    List.of(value("x", DType.F32, 2)),
                    List.of(value("y", DType.F32)),
                    List.of(),
                    Node.of("n", "OperatorOfTheFuture", List.of("x"), List.of("y")));
            assertSame(m, upgrade(m));
        }
    }

    @Test
    void versions_outside_9_to_28_are_refused() {
        for (long opset : List.of(1L, 8L, 29L, Long.MAX_VALUE, -1L)) {
            GraphModel m = model(opset, List.of(), List.of(), List.of());
            UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> upgrade(m));
            assertTrue(e.what().contains("opset " + opset), e.what());
        }
        assertEquals(21, upgrade(model(9, List.of(), List.of(), List.of())).opset());
    }

    @Test
    void nodes_without_an_imported_version_are_refused() {
        Graph g = Graph.of(
                "g", List.of(Node.of("n", "Relu", List.of("x"), List.of("y"))), List.of(), List.of(), List.of());
        GraphModel m = new GraphModel(8, Map.of(), g, List.of(), GraphModel.Producer.NONE, Map.of(), Bytes.EMPTY);
        assertThrows(MalformedModelException.class, () -> upgrade(m));
    }

    @Test
    void an_unknown_operator_is_refused_by_name() {
        GraphModel m = model(
                11,
                List.of(value("x", DType.F32, 2)),
                List.of(value("y", DType.F32)),
                List.of(),
                Node.of("odd", "Frobnicate", List.of("x"), List.of("y")));
        UnsupportedModelException e = assertThrows(UnsupportedModelException.class, () -> upgrade(m));
        assertTrue(e.what().contains("Frobnicate"));
        assertTrue(e.where().contains("odd"));
    }

    @Test
    void what_the_new_version_cannot_say_is_refused() {
        Node training = Node.of("n", "BatchNormalization", List.of("x", "x", "x", "x", "x"), List.of("y", "m"));
        GraphModel m = model(
                9,
                List.of(value("x", DType.F32, 2)),
                List.of(value("y", DType.F32), value("m", DType.F32)),
                List.of(),
                training);
        assertThrows(UnsupportedModelException.class, () -> upgrade(m));
        Node unread = training.withOutputs(List.of("y", "unread", "unread2"));
        GraphModel ok = model(9, List.of(value("x", DType.F32, 2)), List.of(value("y", DType.F32)), List.of(), unread);
        assertEquals(List.of("y"), only(upgrade(ok), "BatchNormalization").outputs());
        Node resize = Node.of(
                "n",
                "Resize",
                List.of("x", "", "x"),
                List.of("y"),
                Attribute.of("coordinate_transformation_mode", "tf_half_pixel_for_nn"));
        GraphModel r = model(11, List.of(value("x", DType.F32, 2)), List.of(value("y", DType.F32)), List.of(), resize);
        assertThrows(UnsupportedModelException.class, () -> upgrade(r));
    }

    @Test
    void attributes_that_are_missing_or_of_another_type_are_refused() {
        for (Node n : List.of(
                Node.of("n", "Unsqueeze", List.of("x"), List.of("y")),
                Node.of("n", "Unsqueeze", List.of("x"), List.of("y"), Attribute.of("axes", 1f)),
                Node.of("n", "Slice", List.of("x"), List.of("y")),
                Node.of("n", "Pad", List.of("x"), List.of("y")),
                Node.of("n", "TopK", List.of("x"), List.of("y")),
                Node.of("n", "Upsample", List.of("x"), List.of("y")),
                Node.of("n", "Clip", List.of("x"), List.of("y"), Attribute.of("min", 1)))) {
            GraphModel m = model(9, List.of(value("x", DType.F32, 2)), List.of(value("y", DType.F32)), List.of(), n);
            assertThrows(MalformedModelException.class, () -> upgrade(m), n.toString());
        }
    }
}
