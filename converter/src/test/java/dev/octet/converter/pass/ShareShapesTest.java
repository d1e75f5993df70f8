package dev.octet.converter.pass;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

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
import java.lang.foreign.Arena;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ShareShapesTest {
    private static final TensorType BATCH_BY_LENGTH =
            new TensorType(DType.F32, List.of(Dim.of("batch"), Dim.of("length")));
    private static final TensorType OTHER_BATCH = new TensorType(DType.F32, List.of(Dim.of("other"), Dim.of("length")));

    /** Two inputs, each reshaped to the shape of the other's like, through a chain of its own. */
    private static GraphModel twoShapes(TensorType a, TensorType b) {
        return GraphModel.of(
                Graph.of(
                        "g",
                        List.of(
                                Node.of("s1", "Shape", List.of("a"), List.of("sa")),
                                Node.of("r1", "Reshape", List.of("a", "sa"), List.of("y")),
                                Node.of("s2", "Shape", List.of("b"), List.of("sb")),
                                Node.of("r2", "Reshape", List.of("b", "sb"), List.of("z"))),
                        List.of(),
                        List.of(new ValueInfo("a", a), new ValueInfo("b", b)),
                        List.of(new ValueInfo("y", a), new ValueInfo("z", b))),
                10,
                21);
    }

    @Test
    void shapes_of_the_same_symbols_are_computed_once() {
        GraphModel shared = new ShareShapes().apply(twoShapes(BATCH_BY_LENGTH, BATCH_BY_LENGTH), new PassLog());
        assertEquals(3, shared.graph().nodes().size());
        assertEquals("sa", shared.graph().nodes().getLast().input(1));
    }

    @Test
    void shapes_of_different_symbols_stay_apart() {
        GraphModel model = twoShapes(BATCH_BY_LENGTH, OTHER_BATCH);
        assertSame(model, new ShareShapes().apply(model, new PassLog()));
    }

    @Test
    void two_unknown_sizes_are_not_taken_for_equal() {
        // the lengths of two slices by run-time numbers follow from nothing and need not be the same
        try (Arena arena = Arena.ofConfined()) {
            TensorType ends = new TensorType(DType.I64, List.of(Dim.of(1)));
            GraphModel model = GraphModel.of(
                    Graph.of(
                            "g",
                            List.of(
                                    Node.of("c1", "Slice", List.of("a", "zero", "e1"), List.of("x1")),
                                    Node.of("c2", "Slice", List.of("a", "zero", "e2"), List.of("x2")),
                                    Node.of("s1", "Shape", List.of("x1"), List.of("n1"), Attribute.of("start", 0)),
                                    Node.of("s2", "Shape", List.of("x2"), List.of("n2"), Attribute.of("start", 0)),
                                    Node.of("j", "Concat", List.of("n1", "n2"), List.of("y"), Attribute.of("axis", 0))),
                            List.of(Initializer.of(Tensor.ofLongs(arena, "zero", Shape.of(1), 0))),
                            List.of(
                                    new ValueInfo("a", BATCH_BY_LENGTH),
                                    new ValueInfo("e1", ends),
                                    new ValueInfo("e2", ends)),
                            List.of(new ValueInfo("y", null))),
                    10,
                    21);
            GraphModel shared = new ShareShapes().apply(model, new PassLog());
            assertEquals(List.of("n1", "n2"), shared.graph().nodes().getLast().inputs());
        }
    }
}
