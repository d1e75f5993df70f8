package dev.octet.converter.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Where models are cut: three blocks {@code h = h + W2 relu(W1 h + mask)}, the mask computed from the input alone. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class ModelCutTest {
    private static final int WEIGHT = 4 * 4 * Float.BYTES;

    private static GraphModel blocks() {
        Arena arena = Arena.ofAuto();
        List<Node> nodes = new ArrayList<>(List.of(
                Node.of("sign", "Sign", List.of("x"), List.of("s")),
                Node.of("mask", "Mul", List.of("s", "two"), List.of("m"))));
        List<Initializer> constants =
                new ArrayList<>(List.of(Initializer.of(Tensor.ofFloats(arena, "two", Shape.SCALAR, 2f))));
        String h = "x";
        for (int i = 0; i < 3; i++) {
            for (String w : List.of("w" + i + "a", "w" + i + "b")) {
                constants.add(Initializer.of(Tensor.ofFloats(arena, w, Shape.of(4, 4), new float[16])));
            }
            nodes.add(Node.of("", "MatMul", List.of(h, "w" + i + "a"), List.of("a" + i)));
            nodes.add(Node.of("", "Add", List.of("a" + i, "m"), List.of("b" + i)));
            nodes.add(Node.of("", "Relu", List.of("b" + i), List.of("c" + i)));
            nodes.add(Node.of("", "MatMul", List.of("c" + i, "w" + i + "b"), List.of("d" + i)));
            nodes.add(Node.of("", "Add", List.of(h, "d" + i), List.of("h" + i)));
            h = "h" + i;
        }
        ValueType x = new ValueType.TensorType(DType.F32, List.of(Dim.of("b"), Dim.of(4)));
        return GraphModel.of(
                Graph.of("blocks", nodes, constants, List.of(new ValueInfo("x", x)), List.of(new ValueInfo("h2", x))),
                8,
                17);
    }

    private static final List<String> WANTED = List.of("s", "c0", "c1", "c2");

    private static List<List<String>> crossing(ModelCut cut, List<Integer> ends) {
        return ends.stream().map(cut::carried).toList();
    }

    @Test
    void a_model_that_fits_stays_whole() {
        ModelCut cut = ModelCut.of(blocks(), WANTED);
        // the last product is not needed for what is looked at
        assertEquals(5 * WEIGHT, cut.bytes(0, cut.end()));
        assertEquals(List.of(cut.end()), cut.ends(0, 5 * WEIGHT));
    }

    @Test
    void one_that_does_not_is_cut_where_one_value_crosses_and_the_mask_is_computed_again() {
        ModelCut cut = ModelCut.of(blocks(), WANTED);
        List<Integer> ends = cut.ends(0, 2 * WEIGHT);
        assertEquals(List.of(List.of("h0"), List.of("h1"), List.of()), crossing(cut, ends));
        GraphModel second = cut.piece(ends.get(0), ends.get(1), Map.of("h0", DType.F32));
        assertEquals(
                List.of("x", "h0"),
                second.graph().inputs().stream().map(ValueInfo::name).toList());
        assertEquals(Set.of("w1a", "w1b", "two"), second.graph().initializers().keySet());
        assertEquals(
                List.of("Sign", "Mul", "MatMul", "Add", "Relu", "MatMul", "Add"),
                second.graph().nodes().stream().map(Node::opType).toList());
    }

    @Test
    void a_block_that_is_too_large_is_cut_where_two_values_cross() {
        ModelCut cut = ModelCut.of(blocks(), WANTED);
        List<Integer> ends = cut.ends(0, WEIGHT);
        assertEquals(5, ends.size());
        assertEquals(List.of("h0", "c1"), cut.carried(ends.get(2)));
        int from = 0;
        for (int end : ends) {
            assertEquals(WEIGHT, cut.bytes(from, end));
            from = end;
        }
    }

    @Test
    void every_value_is_looked_at_in_one_piece() {
        ModelCut cut = ModelCut.of(blocks(), WANTED);
        List<String> seen = new ArrayList<>();
        int from = 0;
        for (int end : cut.ends(0, 0)) {
            seen.addAll(cut.wanted(from, end));
            from = end;
        }
        assertEquals(List.of("s", "c0", "c1", "c2"), seen);
    }

    @Test
    void random_numbers_are_drawn_once_and_carried() {
        GraphModel model = blocks();
        Graph g = model.graph();
        List<Node> nodes = new ArrayList<>(g.nodes());
        nodes.set(0, Node.of("sign", "RandomUniformLike", List.of("x"), List.of("s")));
        ModelCut cut = ModelCut.of(
                model.withGraph(
                        Graph.of("random", nodes, List.copyOf(g.initializers().values()), g.inputs(), g.outputs())),
                WANTED);
        List<Integer> ends = cut.ends(0, 2 * WEIGHT);
        assertTrue(
                cut.carried(ends.getFirst()).contains("m"), crossing(cut, ends).toString());
    }
}
