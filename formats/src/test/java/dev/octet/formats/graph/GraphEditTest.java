package dev.octet.formats.graph;

import static dev.octet.formats.graph.GraphSketch.body;
import static dev.octet.formats.graph.GraphSketch.constant;
import static dev.octet.formats.graph.GraphSketch.floats;
import static dev.octet.formats.graph.GraphSketch.graph;
import static dev.octet.formats.graph.GraphSketch.ids;
import static dev.octet.formats.graph.GraphSketch.names;
import static dev.octet.formats.graph.GraphSketch.node;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GraphEditTest {
    private final Node a = node("Relu", "x", "a");
    private final Node b = node("Add", "a a", "b");
    private final Node c = node("Mul", "b x", "c");
    private final GraphEdit edit = GraphEdit.of(graph("x", "c", a, b, c));

    @Test
    void a_graph_without_edits_comes_back_equal() {
        Graph g = graph(List.of(constant("w")), "x w", "b", a, node("Add", "a w", "b"));
        assertEquals(g, GraphEdit.of(g).build());
    }

    @Test
    void producers_and_consumers_are_found() {
        assertSame(a, edit.producer("a"));
        assertNull(edit.producer("x"));
        assertEquals(List.of(a, c), edit.consumers("x"));
        assertEquals(List.of(b), edit.consumers("a"));
        assertEquals(List.of(), edit.consumers("c"));
        assertTrue(edit.hasSingleUse("a"));
        assertFalse(edit.hasSingleUse("x"));
        assertFalse(edit.hasSingleUse("c"));
        assertTrue(edit.isOutput("c"));
        assertTrue(edit.isInput("x"));
    }

    @Test
    void a_replaced_node_gives_its_place_to_others_in_their_order() {
        Node b1 = node("Neg", "a", "t");
        Node b2 = node("Abs", "t", "b");
        edit.replace(b, b1, b2);
        assertFalse(edit.contains(b));
        assertSame(b2, edit.producer("b"));
        assertEquals(List.of("n_a", "n_t", "n_b", "n_c"), ids(edit.build().nodes()));
    }

    @Test
    void nodes_are_inserted_before_an_anchor_again_and_again() {
        Node anchor = b;
        List<String> expected = new ArrayList<>(List.of("n_a"));
        for (int i = 0; i < 100; i++) {
            edit.insertBefore(anchor, node("Relu", "x", "i" + i));
            expected.add("n_i" + i);
        }
        expected.addAll(List.of("n_b", "n_c"));
        assertEquals(expected, ids(edit.nodes()));
        assertEquals(expected, ids(edit.build().nodes()));
    }

    @Test
    void an_inserted_node_can_be_an_anchor_itself() {
        Node first = node("Relu", "x", "i0");
        edit.insertBefore(b, first);
        Node anchor = first;
        List<String> expected = new ArrayList<>();
        for (int i = 1; i < 200; i++) { // halves the room 200 times: the labels must be renewed on the way
            Node n = node("Relu", "x", "i" + i);
            edit.insertBefore(anchor, n);
            anchor = n;
            expected.addFirst("n_i" + i);
        }
        expected.addFirst("n_a");
        expected.addAll(List.of("n_i0", "n_b", "n_c"));
        assertEquals(expected, ids(edit.nodes()));
        assertEquals(List.of("n_a", "n_i199", "n_i198"), ids(edit.consumers("x").subList(0, 3)));
    }

    @Test
    void appended_nodes_come_last_unless_somebody_reads_them() {
        edit.append(node("Relu", "c", "d"));
        assertEquals("n_d", edit.build().nodes().getLast().id());
        edit.append(node("Relu", "x", "e"));
        Node reader = node("Add", "e b", "c");
        edit.replace(c, reader);
        assertEquals(
                List.of("n_a", "n_b", "n_e", "n_c", "n_d"), ids(edit.build().nodes()));
    }

    @Test
    void readers_are_redirected_but_outputs_keep_their_names() {
        edit.redirect("a", "x");
        assertEquals(List.of("x", "x"), edit.nodes().get(1).inputs());
        assertFalse(edit.contains(b));
        assertEquals(List.of(), edit.consumers("a"));
        edit.redirect("c", "x");
        assertEquals("c", edit.build().outputs().getFirst().name());
    }

    @Test
    void a_subgraph_reads_what_it_captures_and_is_redirected_too() {
        Node inner = node("Add", "a inside", "y");
        Graph then = graph("", "y", node("Relu", "b", "inside"), inner);
        Node branch = node("If", "x", "c", body("then_branch", then));
        GraphEdit e = GraphEdit.of(graph("x", "c", a, b, branch));
        assertEquals(Set.of("x", "a", "b"), branch.uses());
        assertEquals(2, e.consumers("a").size());
        e.redirect("a", "x");
        Graph changed = e.build().nodes().getLast().subgraphs().getFirst();
        assertEquals(List.of("x", "inside"), changed.nodes().getLast().inputs());
        assertEquals(List.of("inside"), changed.nodes().getFirst().outputs());
    }

    @Test
    void what_a_subgraph_gives_out_can_be_a_captured_value() {
        Node branch = node("If", "x", "c", body("then_branch", graph("", "a")));
        GraphEdit e = GraphEdit.of(graph("x", "c", a, branch));
        e.redirect("a", "x");
        assertEquals(
                "x",
                e.build()
                        .nodes()
                        .getLast()
                        .subgraphs()
                        .getFirst()
                        .outputs()
                        .getFirst()
                        .name());
    }

    @Test
    void a_redirect_into_a_hidden_name_is_refused() {
        Graph then = graph("", "y", node("Relu", "a", "hidden"), node("Relu", "hidden", "y"));
        GraphEdit e = GraphEdit.of(graph("x hidden", "c", a, node("If", "x", "c", body("then_branch", then))));
        assertThrows(IllegalArgumentException.class, () -> e.redirect("a", "hidden"));
    }

    @Test
    void a_value_the_subgraph_defines_itself_is_not_redirected() {
        Graph then = graph("", "y", node("Relu", "x", "a"), node("Relu", "a", "y"));
        Node branch = node("If", "x", "c", body("then_branch", then));
        GraphEdit e = GraphEdit.of(graph("x", "c", a, branch));
        e.redirect("a", "x");
        assertSame(branch, e.build().nodes().getLast());
    }

    @Test
    void unreachable_nodes_and_constants_go() {
        Graph g = graph(
                List.of(constant("w"), constant("v"), constant("u")),
                "x v",
                "b",
                a,
                node("Relu", "a", "dead"),
                node("Add", "dead v", "deader"),
                node("Add", "a w", "b"));
        GraphEdit e = GraphEdit.of(g);
        e.putValueInfo(new ValueInfo("dead", null));
        assertEquals(2, e.removeUnreachable());
        Graph left = e.build();
        assertEquals(List.of("n_a", "n_b"), ids(left.nodes()));
        assertEquals(Set.of("w"), left.initializers().keySet());
        assertEquals(floats("x"), left.inputs()); // 'v' was the default of an input
        assertEquals(Map.of(), left.valueInfos());
    }

    @Test
    void a_constant_that_only_a_subgraph_reads_stays() {
        Node branch = node("If", "x", "c", body("then_branch", graph("", "y", node("Relu", "w", "y"))));
        GraphEdit e = GraphEdit.of(graph(List.of(constant("w")), "x", "c", branch));
        assertEquals(0, e.removeUnreachable());
        assertNotNull(e.build().initializers().get("w"));
    }

    @Test
    void nodes_out_of_order_are_put_in_order_and_the_rest_stays() {
        Graph g = graph("x", "c", c, node("Relu", "x", "z"), b, a);
        assertEquals(
                List.of("n_a", "n_b", "n_c", "n_z"), ids(GraphEdit.of(g).build().nodes()));
    }

    @Test
    void a_cycle_is_refused_with_a_node_on_it() {
        edit.replace(a, node("Add", "x c", "a"));
        String message = String.valueOf(
                assertThrows(IllegalStateException.class, edit::build).getMessage());
        assertTrue(message.contains("n_a") || message.contains("n_b") || message.contains("n_c"), message);
        GraphEdit self = GraphEdit.of(graph("x", "s", node("Add", "x s", "s")));
        assertThrows(IllegalStateException.class, self::build);
    }

    @Test
    void a_chain_of_a_hundred_thousand_nodes_in_reverse_order_is_sorted() {
        int n = 100_000;
        List<Node> nodes = new ArrayList<>();
        for (int i = n; i > 0; i--) {
            nodes.add(node("Relu", "v" + (i - 1), "v" + i));
        }
        Graph g = Graph.of("deep", nodes, List.of(), floats("v0"), floats("v" + n));
        assertEquals("n_v1", GraphEdit.of(g).build().nodes().getFirst().id());
    }

    @Test
    void a_value_that_is_defined_twice_is_refused_when_built() {
        edit.append(node("Relu", "x", "a"));
        assertThrows(IllegalStateException.class, edit::build);
    }

    @Test
    void a_new_producer_may_come_before_the_old_one_goes() {
        Node newer = node("Neg", "x", "a");
        edit.insertBefore(a, newer);
        edit.remove(a);
        assertSame(newer, edit.producer("a"));
        edit.build();
    }

    @Test
    void equal_nodes_are_told_apart() {
        Node twin = node("Relu", "x", "a");
        assertEquals(a, twin);
        assertNotSame(a, twin);
        assertThrows(IllegalArgumentException.class, () -> edit.remove(twin));
        assertThrows(IllegalArgumentException.class, () -> edit.append(a));
    }

    @Test
    void a_fresh_name_is_taken_by_nobody() {
        Graph then = graph("", "y", node("Relu", "x", "b_2"), node("Relu", "b_2", "y"));
        GraphEdit e =
                GraphEdit.of(graph("x", "c", a, b, node("If", "x", "c", body("then_branch", then))), Set.of("b_1"));
        assertEquals("b_3", e.freshName("b"));
        assertEquals("b_4", e.freshName("b"));
        assertEquals("new", e.freshName("new"));
        assertEquals("new_1", e.freshName("new"));
    }

    @Test
    void types_come_from_inner_values_inputs_and_outputs() {
        ValueType f32 = new ValueType.TensorType(DType.F32, List.of());
        assertEquals(f32, edit.type("x"));
        assertEquals(f32, edit.type("c"));
        assertNull(edit.type("a"));
        edit.putValueInfo(new ValueInfo("a", f32));
        assertEquals(f32, edit.type("a"));
        assertEquals(Set.of("a"), edit.build().valueInfos().keySet());
    }

    @Test
    void random_edits_keep_lookups_and_lists_in_step() {
        SplittableRandom random = new SplittableRandom(7);
        GraphEdit e = GraphEdit.of(graph("x", "v0", node("Relu", "x", "v0")));
        for (int i = 1; i < 2000; i++) {
            List<Node> live = e.nodes();
            Node at = live.get(random.nextInt(live.size()));
            switch (random.nextInt(4)) {
                case 0 -> e.insertBefore(at, node("Add", "x " + at.inputs().getFirst(), "v" + i));
                case 1 -> e.append(node("Add", "x " + at.outputs().getFirst(), "v" + i));
                case 2 ->
                    e.replace(
                            at, node("Neg", at.inputs().getFirst(), at.outputs().getFirst()));
                default -> {
                    if (e.consumers(at.outputs().getFirst()).isEmpty() && live.size() > 1) {
                        e.remove(at);
                    }
                }
            }
        }
        for (Node n : e.nodes()) {
            assertSame(n, e.producer(n.outputs().getFirst()));
            for (String in : names(String.join(" ", n.inputs()))) {
                assertTrue(e.consumers(in).contains(n));
            }
        }
    }
}
