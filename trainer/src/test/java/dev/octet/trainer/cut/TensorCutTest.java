package dev.octet.trainer.cut;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
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
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.precision.PrecisionPolicy;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Graphs of one rank, by the patterns that exporters write. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TensorCutTest {
    /** A graph as it is written, from the input x of two samples of six positions with eight features. */
    private static final class Writing {
        private final List<Node> nodes = new ArrayList<>();
        private final Map<String, Tensor> constants = new LinkedHashMap<>();
        private final Set<String> weights = new TreeSet<>();

        Writing weight(String name, long... dims) {
            Shape shape = Shape.of(dims);
            float[] elements = new float[(int) shape.elementCount()];
            for (int i = 0; i < elements.length; i++) {
                elements[i] = i;
            }
            constants.put(name, Tensor.ofFloats(Arena.ofAuto(), name, shape, elements));
            weights.add(name);
            return this;
        }

        Writing longs(String name, long... numbers) {
            constants.put(name, Tensor.ofLongs(Arena.ofAuto(), name, Shape.of(numbers.length), numbers));
            return this;
        }

        Writing number(String name, long number) {
            constants.put(name, Tensor.ofLongs(Arena.ofAuto(), name, Shape.SCALAR, number));
            return this;
        }

        Writing node(String type, String inputs, String outputs, Attribute... attributes) {
            boolean octet = Set.of("Linear", "LayerNormalization", "SoftmaxCrossEntropyLoss")
                    .contains(type);
            nodes.add(Node.of(
                    outputs.split(" ", -1)[0],
                    type,
                    octet ? Node.OCTET_DOMAIN : "",
                    List.of(inputs.split(" ", -1)),
                    List.of(outputs.split(" ", -1)),
                    attributes));
            return this;
        }

        /** Ends with the mean of a value as the loss. */
        TensorCut cut(int rank, int ranks, boolean sequence, String last) {
            node("ReduceMean", last, "loss", Attribute.of("keepdims", 0L));
            return cut(rank, ranks, sequence);
        }

        TensorCut cut(int rank, int ranks, boolean sequence) {
            Graph graph = Graph.of(
                    "g",
                    nodes,
                    constants.values().stream().map(Initializer::of).toList(),
                    List.of(input("x", DType.F32, 2, 6, 8), input("ids", DType.I64, 2, 6)),
                    List.of(new ValueInfo("loss", new TensorType(DType.F32, List.of()))));
            return TensorCut.of(
                    GraphModel.of(graph, 10, 23),
                    ProgramOptions.training("loss", weights, weights, PrecisionPolicy.FP32),
                    new CutPlace(rank, ranks, sequence),
                    new TreeMap<>());
        }

        private static ValueInfo input(String name, DType type, long... dims) {
            return new ValueInfo(
                    name,
                    new TensorType(type, Arrays.stream(dims).mapToObj(Dim::of).toList()));
        }
    }

    private static List<String> types(TensorCut cut) {
        return cut.model().graph().nodes().stream()
                .map(n -> n.opType().equals("RankExchange") ? n.textAttribute("kind", "") : n.opType())
                .toList();
    }

    private static String ranges(TensorCut cut, String name) {
        Part part = requireNonNull(cut.parts().get(name), name);
        StringBuilder text = new StringBuilder("axis " + part.axis());
        part.ranges().forEach(r -> text.append(' ').append(r.from()).append('-').append(r.to()));
        return text.toString();
    }

    private static Writing feedForward() {
        return new Writing()
                .weight("w1", 8, 16)
                .weight("b1", 16)
                .weight("w2", 8, 16)
                .weight("b2", 8)
                .node("Linear", "x w1 b1", "h")
                .node("Gelu", "h", "a")
                .node("Linear", "a w2 b2", "y", Attribute.of("transB", 1L));
    }

    @Test
    void of_two_layers_the_first_is_cut_by_columns_and_the_second_by_rows_with_its_bias_behind_the_sum() {
        TensorCut cut = feedForward().cut(1, 2, false, "y");
        assertEquals("axis 1 8-16", ranges(cut, "w1"));
        assertEquals("axis 0 8-16", ranges(cut, "b1"));
        assertEquals("axis 1 8-16", ranges(cut, "w2"));
        assertFalse(cut.parts().containsKey("b2"));
        assertEquals(List.of("Linear", "Gelu", "Linear", "LEAVE", "Add", "ReduceMean"), types(cut));
        Tensor w1 = requireNonNull(cut.model().graph().initializers().get("w1"))
                .tensor()
                .orElseThrow();
        assertEquals(Shape.of(8, 8), w1.shape());
        assertEquals(8, w1.toFloats()[0]);
        assertEquals(24, w1.toFloats()[8]);
        assertEquals(List.of("h", "y"), cut.shared());
    }

    @Test
    void a_gradient_that_leaves_layers_for_what_was_before_is_added_up_once_for_all_that_read_it() {
        TensorCut cut = new Writing()
                .weight("w0", 8)
                .weight("gate", 8, 16)
                .weight("up", 8, 16)
                .weight("down", 16, 8)
                .node("Mul", "x w0", "n")
                .node("Linear", "n gate", "g")
                .node("Linear", "n up", "u")
                .node("Mul", "g u", "m")
                .node("Linear", "m down", "y")
                .cut(0, 4, false, "y");
        assertEquals(List.of("Mul", "ENTER", "Linear", "Linear", "Mul", "Linear", "LEAVE", "ReduceMean"), types(cut));
        assertEquals("axis 1 0-4", ranges(cut, "gate"));
        assertEquals("axis 0 0-4", ranges(cut, "down"));
    }

    private static Writing attention() {
        return new Writing().weight("o", 8, 8);
    }

    private static TensorCut attended(Writing writing, String q, String k, String v, long keyHeads, int rank) {
        return writing.node(
                        "Attention",
                        q + " " + k + " " + v,
                        "a",
                        Attribute.of("q_num_heads", 4L),
                        Attribute.of("kv_num_heads", keyHeads))
                .node("Linear", "a o", "y")
                .cut(rank, 2, false, "y");
    }

    @Test
    void a_weight_of_queries_keys_and_values_is_cut_by_the_heads_of_each() {
        TensorCut cut = attended(
                attention()
                        .weight("qkv", 8, 24)
                        .weight("b", 24)
                        .node("Linear", "x qkv b", "f")
                        .node("Split", "f", "q k v", Attribute.of("axis", 2L), Attribute.of("num_outputs", 3L)),
                "q",
                "k",
                "v",
                4,
                1);
        assertEquals("axis 1 4-8 12-16 20-24", ranges(cut, "qkv"));
        assertEquals("axis 0 4-8 12-16 20-24", ranges(cut, "b"));
        assertEquals("axis 0 4-8", ranges(cut, "o"));
        Node attention = cut.model().graph().nodes().stream()
                .filter(n -> n.is("Attention"))
                .findFirst()
                .orElseThrow();
        assertEquals(2, attention.intAttribute("q_num_heads", 0));
        assertEquals(2, attention.intAttribute("kv_num_heads", 0));
    }

    @Test
    void heads_of_keys_and_values_may_be_fewer_than_those_of_queries() {
        TensorCut cut = attended(
                attention()
                        .weight("qkv", 16, 8)
                        .longs("sizes", 8, 4, 4)
                        .node("Linear", "x qkv", "f", Attribute.of("transB", 1L))
                        .node("Split", "f sizes", "q k v", Attribute.of("axis", -1L)),
                "q",
                "k",
                "v",
                2,
                0);
        assertEquals("axis 0 0-4 8-10 12-14", ranges(cut, "qkv"));
    }

    @Test
    void heads_that_a_reshape_puts_behind_queries_keys_and_values_are_found_there() {
        TensorCut cut = attention()
                .weight("qkv", 8, 24)
                .longs("apart", 2, 6, 3, 4, 2)
                .number("0", 0)
                .number("1", 1)
                .number("2", 2)
                .longs("together", 2, 6, 8)
                .node("Linear", "x qkv", "f")
                .node("Reshape", "f apart", "r")
                .node("Transpose", "r", "t", Attribute.of("perm", List.of(2L, 0L, 3L, 1L, 4L)))
                .node("Gather", "t 0", "q")
                .node("Gather", "t 1", "k")
                .node("Gather", "t 2", "v")
                .node("Attention", "q k v", "a")
                .node("Transpose", "a", "s", Attribute.of("perm", List.of(0L, 2L, 1L, 3L)))
                .node("Reshape", "s together", "m")
                .node("Linear", "m o", "y")
                .cut(1, 2, false, "y");
        assertEquals("axis 1 4-8 12-16 20-24", ranges(cut, "qkv"));
        assertEquals("axis 0 4-8", ranges(cut, "o"));
    }

    @Test
    void attention_in_single_operators_is_cut_too_with_keys_that_are_repeated_for_groups_of_queries() {
        TensorCut cut = attention()
                .weight("wq", 8, 8)
                .weight("wk", 8, 4)
                .weight("wv", 8, 4)
                .longs("heads", 2, 6, 4, 2)
                .longs("pairs", 2, 6, 2, 2)
                .longs("axis", 2)
                .longs("twice", 2, 2, 2, 6, 2)
                .longs("all", 2, 4, 6, 2)
                .longs("together", 2, 6, 8)
                .node("Linear", "x wq", "q")
                .node("Linear", "x wk", "k")
                .node("Linear", "x wv", "v")
                .node("Reshape", "q heads", "qh")
                .node("Reshape", "k pairs", "kh")
                .node("Reshape", "v pairs", "vh")
                .node("Transpose", "qh", "qt", Attribute.of("perm", List.of(0L, 2L, 1L, 3L)))
                .node("Transpose", "kh", "kt", Attribute.of("perm", List.of(0L, 2L, 1L, 3L)))
                .node("Transpose", "vh", "vt", Attribute.of("perm", List.of(0L, 2L, 1L, 3L)))
                .node("Unsqueeze", "kt axis", "k5")
                .node("Expand", "k5 twice", "ke")
                .node("Reshape", "ke all", "kr")
                .node("Unsqueeze", "vt axis", "v5")
                .node("Expand", "v5 twice", "ve")
                .node("Reshape", "ve all", "vr")
                .node("Transpose", "kr", "kk", Attribute.of("perm", List.of(0L, 1L, 3L, 2L)))
                .node("MatMul", "qt kk", "s")
                .node("Softmax", "s", "p", Attribute.of("axis", -1L))
                .node("MatMul", "p vr", "a")
                .node("Transpose", "a", "at", Attribute.of("perm", List.of(0L, 2L, 1L, 3L)))
                .node("Reshape", "at together", "m")
                .node("Linear", "m o", "y")
                .cut(1, 2, false, "y");
        assertEquals("axis 1 4-8", ranges(cut, "wq"));
        assertEquals("axis 1 2-4", ranges(cut, "wk"));
        assertEquals("axis 1 2-4", ranges(cut, "wv"));
        assertEquals("axis 0 4-8", ranges(cut, "o"));
    }

    @Test
    void a_table_and_the_output_layer_that_shares_it_are_cut_by_the_vocabulary_even_where_that_is_uneven() {
        Writing writing = feedForward()
                .weight("t", 33, 8)
                .node("Gather", "t ids", "e")
                .node("Add", "e y", "z")
                .node("Linear", "z t", "scores", Attribute.of("transB", 1L))
                .node("SoftmaxCrossEntropyLoss", "scores ids", "loss", Attribute.of("shift", 1L));
        TensorCut cut = writing.cut(2, 4, false);
        assertEquals("axis 0 16-24", ranges(cut, "t"));
        assertEquals("axis 0 24-33", ranges(writing.cut(3, 4, false), "t"));
        Node head = cut.model().graph().nodes().get(9);
        assertEquals(
                Optional.of(List.of(8L, 8L, 8L, 9L)), head.intsAttribute("columns"), "recipes see what others have");
        assertEquals(
                List.of(
                        "Linear",
                        "Gelu",
                        "Linear",
                        "LEAVE",
                        "Add",
                        "CutGather",
                        "LEAVE",
                        "Add",
                        "ENTER",
                        "Linear",
                        "CutCrossEntropyLoss"),
                types(cut));
    }

    @Test
    void a_small_vocabulary_stays_whole() {
        TensorCut cut = feedForward()
                .weight("head", 8, 12)
                .node("Linear", "y head", "scores")
                .node("SoftmaxCrossEntropyLoss", "scores ids", "loss")
                .cut(0, 2, false);
        assertEquals(List.of("scores"), cut.whole());
        assertFalse(cut.parts().containsKey("head"));
    }

    @Test
    void what_reads_all_features_of_a_layer_keeps_it_whole_and_the_rest_is_cut() {
        TensorCut cut = feedForward()
                .weight("v1", 8, 16)
                .weight("v2", 16, 8)
                .node("Linear", "y v1", "g")
                .node("Softmax", "g", "p", Attribute.of("axis", -1L))
                .node("Linear", "p v2", "z")
                .cut(0, 2, false, "z");
        assertEquals(List.of("h", "y"), cut.shared());
        assertEquals(List.of("g", "z"), cut.whole());
    }

    @Test
    void a_model_without_such_a_layer_is_refused_with_what_keeps_it_whole() {
        InvalidOptionException refused = assertThrows(
                InvalidOptionException.class,
                () -> new Writing()
                        .weight("w1", 8, 8)
                        .weight("w2", 8, 8)
                        .node("Linear", "x w1", "h")
                        .node("Add", "h x", "r")
                        .node("Linear", "r w2", "y")
                        .cut(0, 2, false, "y"));
        assertEquals("no layer of the model can be shared out: 'x' is an input", refused.what());
        assertEquals("distributed.tensor: 2", refused.where());
    }

    @Test
    void features_that_ranks_do_not_divide_are_refused_with_numbers_that_do() {
        InvalidOptionException refused =
                assertThrows(InvalidOptionException.class, () -> feedForward().cut(0, 3, false, "y"));
        assertEquals("an axis of 16 that 'h' computes cannot be shared out evenly to 3 ranks", refused.what());
        assertEquals("choose one of 2, 4, 8, 16, or leave tensor out", refused.fix());
    }

    @Test
    void between_layers_each_rank_has_some_positions_where_that_is_asked_for() {
        TensorCut cut = new Writing()
                .weight("t", 16, 8)
                .weight("p", 6, 8)
                .weight("n1", 8)
                .weight("n2", 8)
                .weight("wq", 8, 8)
                .weight("o", 8, 8)
                .weight("ob", 8)
                .node("Gather", "t ids", "e")
                .node("Add", "e p", "s")
                .node("LayerNormalization", "s n1", "n")
                .node("Linear", "n wq", "q")
                .node("Attention", "q q q", "a", Attribute.of("q_num_heads", 2L), Attribute.of("kv_num_heads", 2L))
                .node("Linear", "a o ob", "y")
                .node("Add", "s y", "r")
                .node("LayerNormalization", "r n2", "m")
                .cut(1, 2, true, "m");
        assertEquals(
                List.of(
                        "CutGather",
                        "LEAVE_TO_SHARES",
                        "TO_SHARES",
                        "Add",
                        "ENTER",
                        "LayerNormalization",
                        "ENTER_FROM_SHARES",
                        "Linear",
                        "Attention",
                        "Linear",
                        "LEAVE_TO_SHARES",
                        "ENTER",
                        "Add",
                        "Add",
                        "ENTER",
                        "LayerNormalization",
                        "FROM_SHARES",
                        "ReduceMean"),
                types(cut));
        assertTrue(
                cut.model().graph().nodes().stream()
                        .filter(n -> n.opType().equals("RankExchange")
                                && n.textAttribute("kind", "").equals("ENTER"))
                        .allMatch(n -> Set.of("n1", "n2", "ob").contains(n.input(0))),
                "gradients of what all positions share are added up");
    }

    @Test
    void sequences_need_attention_that_says_what_they_are_and_as_many_positions_as_ranks() {
        InvalidOptionException none =
                assertThrows(InvalidOptionException.class, () -> feedForward().cut(0, 2, true, "y"));
        assertEquals("no attention of the model says what a sequence is", none.what());
    }
}
