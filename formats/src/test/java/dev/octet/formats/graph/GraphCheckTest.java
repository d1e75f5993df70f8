package dev.octet.formats.graph;

import static dev.octet.formats.graph.GraphSketch.body;
import static dev.octet.formats.graph.GraphSketch.constant;
import static dev.octet.formats.graph.GraphSketch.floats;
import static dev.octet.formats.graph.GraphSketch.function;
import static dev.octet.formats.graph.GraphSketch.graph;
import static dev.octet.formats.graph.GraphSketch.ids;
import static dev.octet.formats.graph.GraphSketch.model;
import static dev.octet.formats.graph.GraphSketch.node;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.MalformedModelException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GraphCheckTest {
    /** The one finding of {@code g}. */
    private static String finding(GraphModel m) {
        List<GraphCheck.Finding> all = GraphCheck.check(m);
        assertEquals(1, all.size(), all.toString());
        return all.getFirst().what();
    }

    private static String finding(Graph g) {
        return finding(model(g));
    }

    private static void legal(Graph g) {
        assertEquals(List.of(), GraphCheck.check(model(g)));
    }

    @Test
    void a_legal_graph_has_no_findings() {
        legal(graph(List.of(constant("w")), "x w", "y", node("Add", "x w", "a"), node("Clip", "a", "y")));
    }

    @Test
    void a_value_that_nothing_defines_is_found() {
        assertEquals("node n_y reads the undefined value 'q'", finding(graph("x", "y", node("Add", "x q", "y"))));
        assertEquals("the output 'z' is undefined", finding(graph("x", "z", node("Relu", "x", "y"))));
    }

    @Test
    void a_subgraph_may_read_outer_values_but_no_others() {
        Graph inner = graph("", "t", node("Relu", "a", "t"));
        legal(graph("x", "y", node("Relu", "x", "a"), node("If", "x", "y", body("then_branch", inner))));
        Node deep = node("If", "x", "t", body("then_branch", graph("", "u", node("Add", "a q", "u"))));
        Graph g = graph(
                "x", "y", node("Relu", "x", "a"), node("If", "x", "y", body("then_branch", graph("", "t", deep))));
        assertEquals("node n_u reads the undefined value 'q'", finding(g));
    }

    @Test
    void a_value_inside_a_subgraph_is_not_seen_outside() {
        Graph inner = graph("", "t", node("Relu", "x", "t"));
        Graph g = graph("x", "y z", node("If", "x", "y", body("then_branch", inner)), node("Relu", "t", "z"));
        assertEquals("node n_z reads the undefined value 't'", finding(g));
    }

    @Test
    void a_value_that_is_defined_twice_is_found() {
        Node y = node("Relu", "x", "y");
        assertEquals(
                "the value 'y' is defined twice: by node n_y and by node n_y",
                finding(graph("x", "y", y, node("Neg", "x", "y"))));
        assertEquals(
                "the value 'x' is defined twice: as an input and by node n_x",
                finding(graph(List.of(constant("w")), "x", "x", node("Neg", "w", "x"))));
        assertEquals(
                "the value 'w' is defined twice: as a constant and by node n_w",
                finding(graph(List.of(constant("w")), "x", "w", node("Neg", "x", "w"))));
        assertEquals("the value 'x' is defined twice: as an input and as an input", finding(graph("x x", "y", y)));
    }

    @Test
    void inputs_and_outputs_need_names() {
        Graph g = Graph.of("g", List.of(node("Relu", "x", "y")), List.of(), floats("x y2"), floats("y"));
        Graph noInput = Graph.of(
                "g",
                g.nodes(),
                List.of(),
                List.of(new ValueInfo("", null), g.inputs().getFirst()),
                g.outputs());
        assertEquals("an input of the graph has no name", finding(noInput));
        Graph noOutput = Graph.of("g", g.nodes(), List.of(), g.inputs(), List.of(new ValueInfo("", null)));
        assertEquals("an output of the graph has no name", finding(noOutput));
    }

    @Test
    void a_cycle_is_found_with_a_node_on_it() {
        Graph g = graph(
                "x",
                "e",
                node("Relu", "c", "d"),
                node("Add", "x c", "b"),
                node("Relu", "b", "c"),
                node("Relu", "d", "e"));
        String what = finding(g);
        assertTrue(
                what.equals("the graph has a cycle: node n_b depends on its own result")
                        || what.equals("the graph has a cycle: node n_c depends on its own result"),
                what);
    }

    @Test
    void a_cycle_through_a_subgraph_is_found() {
        Graph inner = graph("", "t", node("Relu", "z", "t"));
        Graph g = graph("x", "z", node("If", "x", "y", body("then_branch", inner)), node("Relu", "y", "z"));
        assertTrue(finding(g).startsWith("the graph has a cycle: node "));
    }

    @Test
    void nodes_out_of_order_are_no_finding_and_are_sorted_on_request() {
        Graph inner = graph("", "u", node("Relu", "t", "u"), node("Relu", "x", "t"));
        Graph g = graph(
                "x",
                "y",
                node("If", "b", "y", body("then_branch", inner)),
                node("Relu", "a", "b"),
                node("Relu", "x", "a"));
        legal(g);
        Graph sorted = GraphCheck.sorted(g);
        assertEquals(List.of("n_a", "n_b", "n_y"), ids(sorted.nodes()));
        assertEquals(
                List.of("n_t", "n_u"),
                ids(sorted.nodes().getLast().subgraphs().getFirst().nodes()));
        assertSame(sorted, GraphCheck.sorted(sorted));
        GraphModel m = model(sorted);
        assertSame(m, GraphCheck.sorted(m));
    }

    @Test
    void a_node_that_gives_out_nothing_is_found() {
        Node silent = Node.of("silent", "Print", List.of("x"), List.of(""));
        assertEquals("node silent has no output", finding(graph("x", "y", silent, node("Relu", "x", "y"))));
    }

    @Test
    void a_domain_without_its_operator_set_is_found_once() {
        Node one = Node.of("one", "Foo", "com.acme", List.of("x"), List.of("y"));
        Node two = Node.of("two", "Foo", "com.acme", List.of("x"), List.of("z"));
        Graph g = graph("x", "y z", one, two);
        assertEquals("node one is of domain 'com.acme', whose operator set is not imported", finding(g));
        assertEquals(List.of(), GraphCheck.check(model(g).withOpset("com.acme", 1, 8)));
        legal(graph("x", "y", Node.of("l", "Linear", Node.OCTET_DOMAIN, List.of("x"), List.of("y"))));
    }

    @Test
    void an_attribute_that_stands_for_another_belongs_in_a_function() {
        Node n = node("Relu", "x", "y", new Attribute("alpha", new Attribute.Reference("a", 1)));
        assertEquals(
                "attribute 'alpha' of node n_y stands for the attribute 'a' of a function, but is in none",
                finding(graph("x", "y", n)));
        GraphModel m =
                model(graph("x", "y", node("Relu", "x", "y"))).withFunctions(List.of(function("F", "x", "y", n)));
        assertEquals(List.of(), GraphCheck.check(m));
    }

    @Test
    void functions_obey_the_same_rules() {
        Graph g = graph("x", "y", node("Relu", "x", "y"));
        GraphModel bad = model(g).withFunctions(List.of(function("F", "x", "y", node("Add", "x outer", "y"))));
        assertEquals("node n_y reads the undefined value 'outer'", finding(bad));
        Function f = function("F", "x", "y", node("Relu", "x", "y"));
        assertEquals("there are two functions 'f.F'", finding(model(g).withFunctions(List.of(f, f))));
    }

    @Test
    void a_function_that_calls_itself_through_another_is_found() {
        Function f = function("F", "x", "y", Node.of("call", "G", "f", List.of("x"), List.of("y")));
        Function g = function("G", "x", "y", Node.of("call", "F", "f", List.of("x"), List.of("y")));
        Function h = function("H", "x", "y", Node.of("call", "G", "f", List.of("x"), List.of("y")));
        Graph main = graph("x", "y", node("Relu", "x", "y"));
        String what = finding(model(main).withFunctions(List.of(h, f, g)));
        assertTrue(
                what.equals("the function 'f.F' calls itself") || what.equals("the function 'f.G' calls itself"), what);
        Function leaf = function("G", "x", "y", node("Relu", "x", "y"));
        assertEquals(List.of(), GraphCheck.check(model(main).withFunctions(List.of(h, f, leaf))));
    }

    @Test
    void the_first_finding_is_thrown_with_the_number_of_others() {
        GraphModel m = model(graph("x", "z w", node("Relu", "x", "y")));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> GraphCheck.require(m));
        assertEquals("the output 'z' is undefined (and 1 more findings)", e.what());
        assertEquals("graph 'g'", e.where());
    }

    @Test
    void deep_chains_and_deep_nesting_do_not_end_the_stack() {
        List<Node> chain = new ArrayList<>();
        for (int i = 50_000; i > 0; i--) {
            chain.add(node("Relu", "v" + (i - 1), "v" + i));
        }
        legal(Graph.of("g", chain, List.of(), floats("v0"), floats("v50000")));
        Graph g = graph("", "t", node("Relu", "x", "t"));
        for (int i = 0; i < 300; i++) {
            g = graph("", "t", node("If", "x", "t", body("then_branch", g)));
        }
        legal(graph("x", "t", g.nodes().getFirst()));
    }
}
