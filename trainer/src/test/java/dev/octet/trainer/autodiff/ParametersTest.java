package dev.octet.trainer.autodiff;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ParametersTest {
    private static final Arena ARENA = Arena.ofAuto();

    private static Tensor constant(String name, long... dims) {
        Shape shape = Shape.of(dims);
        float[] values = new float[(int) shape.elementCount()];
        for (int i = 0; i < values.length; i++) {
            values[i] = 0.5f + i;
        }
        return Tensor.ofFloats(ARENA, name, shape, values);
    }

    private static Node node(String type, List<String> inputs, String output) {
        return Node.of(output, type, inputs, List.of(output));
    }

    private static Node linear(String x, String w, String y) {
        return Node.of(y, "Linear", Node.OCTET_DOMAIN, List.of(x, w), List.of(y));
    }

    private static Graph graph(List<Node> nodes, Tensor... constants) {
        List<Initializer> initializers = new ArrayList<>();
        for (Tensor t : constants) {
            initializers.add(Initializer.of(t));
        }
        return Graph.of("g", nodes, initializers, List.of(), List.of());
    }

    private static Map<String, String> uses(Graph graph) {
        Map<String, String> uses = new TreeMap<>();
        Parameters.of(graph).all().forEach(p -> uses.put(p.name(), p.use().text()));
        return uses;
    }

    @Test
    void weights_biases_norms_embeddings_and_tokens_are_parameters() {
        Graph g = graph(
                List.of(
                        node("Gather", List.of("table", "ids"), "e"),
                        Node.of("l", "Linear", Node.OCTET_DOMAIN, List.of("e", "w", "b"), List.of("l")),
                        node("LayerNormalization", List.of("l", "scale", "shift"), "n"),
                        node("Expand", List.of("token", "shape"), "tokens"),
                        node("Concat", List.of("tokens", "n"), "c"),
                        node("Slice", List.of("positions", "from", "to"), "p"),
                        node("Add", List.of("c", "p"), "s"),
                        node("Conv", List.of("s", "kernel"), "y")),
                constant("table", 7, 4),
                constant("w", 4, 4),
                constant("b", 1),
                constant("scale", 4),
                constant("shift", 4),
                constant("token", 1, 1, 4),
                constant("positions", 1, 9, 4),
                constant("kernel", 2, 2, 1, 1));
        assertEquals(
                Map.of(
                        "table", "embedding",
                        "w", "weight",
                        "b", "bias",
                        "scale", "norm",
                        "shift", "norm",
                        "token", "token",
                        "positions", "bias",
                        "kernel", "weight"),
                uses(g));
    }

    @Test
    void a_table_of_rotations_is_none() {
        Graph g = graph(
                List.of(
                        node("Gather", List.of("cos_table", "ids"), "c"),
                        node("Unsqueeze", List.of("c", "axis"), "c4"),
                        node("Mul", List.of("q", "c4"), "qc"),
                        node("Gather", List.of("sin_table", "ids"), "s"),
                        node("RotaryEmbedding", List.of("k", "c", "s"), "kr")),
                constant("cos_table", 16, 4),
                constant("sin_table", 16, 4));
        assertEquals(Map.of(), uses(g));
    }

    @Test
    void frequencies_that_become_angles_are_none() {
        Graph g = graph(
                List.of(
                        node("Expand", List.of("inv_freq", "shape"), "f"),
                        node("MatMul", List.of("f", "positions"), "m"),
                        node("Transpose", List.of("m"), "t"),
                        node("Concat", List.of("t", "t"), "c"),
                        node("Cos", List.of("c"), "cos")),
                constant("inv_freq", 1, 4, 1));
        assertEquals(Map.of(), uses(g));
    }

    @Test
    void masks_are_none() {
        Tensor early = Tensor.ofFloats(ARENA, "early", Shape.of(4), 0, -10000, 0, -10000);
        Graph g = graph(
                List.of(
                        node("Add", List.of("scores", "early"), "a"),
                        node("Add", List.of("scores", "alibi"), "b"),
                        node("Softmax", List.of("b"), "p")),
                early,
                constant("alibi", 1, 2, 4, 4));
        assertEquals(Map.of(), uses(g));
    }

    @Test
    void masks_of_Attention_are_judged_like_summands() {
        Tensor early = Tensor.ofFloats(ARENA, "early", Shape.of(4), 0, -10000, 0, -10000);
        Graph g = graph(
                List.of(
                        node("Attention", List.of("queries", "k", "v", "early"), "a"),
                        node("Attention", List.of("q", "k", "v", "alibi"), "b"),
                        node("Attention", List.of("q", "k", "v", "shift"), "c")),
                early,
                constant("queries", 1, 2, 4, 4),
                constant("alibi", 1, 2, 4, 4),
                constant("shift", 4, 4));
        assertEquals(Map.of("queries", "weight", "shift", "bias"), uses(g));
    }

    @Test
    void scalars_and_running_statistics_are_none() {
        Graph g = graph(
                List.of(
                        node("BatchNormalization", List.of("x", "s", "b", "mean", "variance"), "n"),
                        node("Mul", List.of("n", "half"), "h"),
                        node("Pow", List.of("h", "two"), "y")),
                constant("s", 3),
                constant("b", 3),
                constant("mean", 3),
                constant("variance", 3),
                constant("half"),
                constant("two", 1));
        assertEquals(Set.of("s", "b"), Parameters.of(g).names());
    }

    @Test
    void patterns_choose_what_is_trained() {
        Graph g = graph(
                List.of(linear("x", "encoder.w", "a"), linear("a", "head.w", "b")),
                constant("encoder.w", 2, 2),
                constant("head.w", 2, 2));
        Parameters p = Parameters.of(g);
        assertEquals(Set.of("encoder.w", "head.w"), p.trained(List.of(), List.of()));
        assertEquals(Set.of("head.w"), p.trained(List.of(Pattern.compile("encoder\\..*")), List.of()));
        assertEquals(Set.of("encoder.w"), p.trained(List.of(), List.of(Pattern.compile("^enc"))));
        assertThrows(InvalidOptionException.class, () -> p.trained(List.of(Pattern.compile("w")), List.of()));
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class, () -> p.trained(List.of(Pattern.compile("encodre.w")), List.of()));
        assertTrue(e.what().contains("encodre.w") && e.fix().contains("encoder.w"), e.getMessage());
    }

    @Test
    void masters_are_f32() {
        Tensor half = Tensor.allocate(ARENA, new TensorSpec("w", DType.F16, Shape.of(3)));
        for (int i = 0; i < 3; i++) {
            half.bytes().set(Tensor.I16_LE, i * 2L, Float.floatToFloat16(i - 0.5f));
        }
        Tensor master = Parameters.master(new Parameter("w", half, Parameter.Use.WEIGHT), ARENA);
        assertArrayEquals(new float[] {-0.5f, 0.5f, 1.5f}, master.toFloats());
    }

    @Test
    void a_transposed_copy_of_the_embedding_is_found_and_restored() {
        Tensor table = Tensor.ofFloats(ARENA, "wte", Shape.of(2, 3), 1, 2, 3, 4, 5, 6);
        Tensor copy = Tensor.ofFloats(ARENA, "head", Shape.of(3, 2), 1, 4, 2, 5, 3, 6);
        Graph g = graph(List.of(node("Gather", List.of("wte", "ids"), "e"), linear("e", "head", "y")), copy, table);
        List<Ties.Tie> ties = Ties.find(g);
        assertEquals(List.of(new Ties.Tie("wte", "head", true, true)), ties);
        Graph restored = Ties.restore(GraphModel.of(g, 10, 21), ties).graph();
        Node head = restored.nodes().getLast();
        assertEquals("wte", head.input(1));
        assertEquals(1, head.intAttribute("transB", 0));
        assertEquals(Set.of("wte"), restored.initializers().keySet());
    }

    @Test
    void equal_weights_of_one_number_are_no_tie() {
        Tensor a = Tensor.ofFloats(ARENA, "a", Shape.of(2, 2), 1, 1, 1, 1);
        Tensor b = Tensor.ofFloats(ARENA, "b", Shape.of(2, 2), 1, 1, 1, 1);
        assertEquals(List.of(), Ties.find(graph(List.of(linear("x", "a", "y"), linear("y", "b", "z")), a, b)));
    }

    /** Two layers that began as one, and an embedding that is the output layer: only the latter is certain to be a tie. */
    @Test
    void copies_of_layers_are_found_and_restored_only_when_all_are_asked_for() {
        Tensor table = Tensor.ofFloats(ARENA, "wte", Shape.of(2, 3), 1, 2, 3, 4, 5, 6);
        Tensor head = Tensor.ofFloats(ARENA, "head", Shape.of(3, 2), 1, 4, 2, 5, 3, 6);
        Tensor first = Tensor.ofFloats(ARENA, "first", Shape.of(3, 3), 1, 2, 3, 4, 5, 6, 7, 8, 9);
        Graph g = graph(
                List.of(
                        node("Gather", List.of("wte", "ids"), "e"),
                        linear("e", "first", "f"),
                        linear("f", "second", "s"),
                        linear("s", "head", "y")),
                head,
                first,
                first.withName("second"),
                table);
        List<Ties.Tie> ties = Ties.find(g);
        Ties.Tie embedding = new Ties.Tie("wte", "head", true, true);
        Ties.Tie layers = new Ties.Tie("first", "second", false, false);
        assertEquals(List.of(embedding, layers), ties);
        assertEquals(List.of(embedding), Ties.Restored.EMBEDDINGS.of(ties));
        assertEquals(ties, Ties.Restored.ALL.of(ties));
        assertEquals(List.of(), Ties.Restored.NONE.of(ties));
        assertEquals(
                Set.of("wte", "first"),
                Ties.restore(GraphModel.of(g, 10, 21), ties)
                        .graph()
                        .initializers()
                        .keySet());
    }

    @Test
    void weights_of_a_restored_model_become_those_of_the_export() {
        Tensor table = Tensor.ofFloats(ARENA, "wte", Shape.of(2, 3), 1, 2, 3, 4, 5, 6);
        List<Ties.Tie> ties = List.of(
                new Ties.Tie("wte", "head", true, true),
                new Ties.Tie("wte", "again", false, true),
                new Ties.Tie("gone", "too", false, true));
        Map<String, Tensor> all = Ties.withCopies(Map.of("wte", table), ties, ARENA);
        assertEquals(Set.of("wte", "head", "again"), all.keySet());
        Tensor head = requireNonNull(all.get("head"));
        assertEquals(Shape.of(3, 2), head.shape());
        assertArrayEquals(new float[] {1, 4, 2, 5, 3, 6}, head.toFloats());
        assertEquals("again", requireNonNull(all.get("again")).name());
    }

    @Test
    void constants_that_are_joined_with_constants_only_are_no_tokens() {
        Graph g =
                graph(List.of(node("Concat", List.of("low", "high"), "both")), constant("low", 4), constant("high", 4));
        assertEquals(Map.of(), uses(g));
    }

    @Test
    void a_constant_that_a_layer_multiplies_and_a_matrix_of_factors_are_none() {
        Graph g = graph(
                List.of(linear("fixed", "w", "y"), node("Mul", List.of("y", "factors"), "z")),
                constant("fixed", 2, 4),
                constant("w", 4, 4),
                constant("factors", 2, 4));
        assertEquals(Map.of("w", "weight"), uses(g));
    }

    @Test
    void a_transposed_copy_that_lies_turned_is_read_straight_once_restored() {
        Tensor table = Tensor.ofFloats(ARENA, "wte", Shape.of(2, 3), 1, 2, 3, 4, 5, 6);
        Tensor copy = Tensor.ofFloats(ARENA, "head", Shape.of(3, 2), 1, 4, 2, 5, 3, 6);
        Node turned = linear("e", "head", "y").with(Attribute.of("transB", 1));
        Graph g = graph(List.of(node("Gather", List.of("wte", "ids"), "e"), turned), copy, table);
        Graph restored = Ties.restore(GraphModel.of(g, 10, 21), Ties.find(g)).graph();
        assertEquals(0, restored.nodes().getLast().intAttribute("transB", 0));
    }
}
