package dev.octet.converter.restore;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Bytes;
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
import java.lang.foreign.Arena;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator.ReplaceUnderscores;
import org.junit.jupiter.api.Test;

/** Files of optimum itself are restored by {@code RestoredExportsTest}. */
@DisplayNameGeneration(ReplaceUnderscores.class)
class MergedDecoderTest {
    private static final ValueInfo X = value("x", DType.F32);
    private static final ValueInfo Y = value("y", DType.F32);

    private static ValueInfo value(String name, DType dtype) {
        return new ValueInfo(name, new TensorType(dtype, List.of(Dim.of(1))));
    }

    private static Initializer number(String name) {
        return Initializer.of(Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(1), new float[] {2}));
    }

    private static Graph branch(String op, String small, String output) {
        return Graph.of(
                op,
                List.of(Node.of("n", op, List.of("x", small), List.of(output))),
                List.of(number(small)),
                List.of(),
                List.of(value(output, DType.F32)));
    }

    private static GraphModel merged(Graph with, Graph without, Initializer... weights) {
        Node choice = new Node(
                "optimum::if",
                "If",
                "",
                "",
                List.of(MergedDecoder.CONDITION),
                List.of("y"),
                Map.of(
                        "then_branch",
                        new Attribute("then_branch", new Attribute.OfGraph(with), "", Bytes.EMPTY),
                        "else_branch",
                        new Attribute("else_branch", new Attribute.OfGraph(without), "", Bytes.EMPTY)),
                "",
                Map.of(),
                Bytes.EMPTY);
        return GraphModel.of(
                Graph.of(
                        "merged",
                        List.of(choice),
                        List.of(weights),
                        List.of(X, value(MergedDecoder.CONDITION, DType.BOOL)),
                        List.of(Y)),
                9,
                14);
    }

    @Test
    void the_branch_without_a_cache_takes_the_place_of_both() {
        Graph graph = MergedDecoder.withoutCache(merged(branch("Add", "a", "y"), branch("Mul", "b", "y")), "file")
                .graph();
        assertEquals(List.of("Mul"), graph.nodes().stream().map(Node::opType).toList());
        assertEquals(Set.of("b"), graph.initializers().keySet());
        assertEquals(List.of(X), graph.inputs());
    }

    @Test
    void an_output_that_has_another_name_inside_gets_the_one_outside() {
        Graph graph = MergedDecoder.withoutCache(merged(branch("Add", "a", "z"), branch("Mul", "b", "z")), "file")
                .graph();
        assertEquals(List.of("z", "y"), graph.nodes().stream().map(Node::output).toList());
        assertEquals("Identity", graph.nodes().getLast().opType());
    }

    @Test
    void a_constant_of_the_branch_with_the_name_of_a_weight_is_refused() {
        GraphModel model = merged(branch("Add", "a", "y"), branch("Mul", "b", "y"), number("b"));
        UnsupportedModelException refused =
                assertThrows(UnsupportedModelException.class, () -> MergedDecoder.withoutCache(model, "file"));
        assertTrue(refused.what().contains("'b' is defined inside and outside of optimum::if"), refused.what());
    }

    @Test
    void a_model_without_the_condition_stays_as_it_is() {
        GraphModel model = GraphModel.of(branch("Mul", "b", "y"), 9, 14);
        assertSame(model, MergedDecoder.withoutCache(model, "file"));
    }
}
