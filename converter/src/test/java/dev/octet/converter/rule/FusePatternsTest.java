package dev.octet.converter.rule;

import static dev.octet.converter.rule.Sketch.sketch;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.converter.pass.PassLog;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.DType;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FusePatternsTest {
    private static Sketch start() {
        return sketch().input("x", DType.F32, 2, 3)
                .input("c", DType.BOOL)
                .output("y")
                .weight("w", 3, 4);
    }

    /** A body that computes {@code r} from values outside of it. */
    private static Attribute branch(String name, Node node) {
        Graph body = Graph.of(name, List.of(node), List.of(), List.of(), List.of(new ValueInfo("r", null)));
        return new Attribute(name, new Attribute.OfGraph(body));
    }

    @Test
    void bodies_of_control_flow_stay_and_are_noted() {
        Node product = Node.of("m", "MatMul", List.of("x", "w"), List.of("r"));
        GraphModel model = start().node(Node.of(
                        "if",
                        "If",
                        List.of("c"),
                        List.of("y"),
                        branch("then_branch", product),
                        branch("else_branch", product)))
                .model();
        PassLog log = new PassLog();
        assertEquals(model, new FusePatterns().apply(model, log));
        assertEquals(1, log.notes().size());
        assertEquals(
                "fuse-patterns: if: control flow (If): its body is kept as it is",
                log.notes().getFirst().toString());
    }

    @Test
    void a_value_that_a_body_reads_is_needed() {
        Node relu = Node.of("r", "Relu", List.of("mm"), List.of("r"));
        FusePatterns.Result result = start().output("z")
                .weight("b", 4)
                .node("m", "MatMul", "x w", "mm")
                .node("a", "Add", "mm b", "z")
                .node(Node.of(
                        "if",
                        "If",
                        List.of("c"),
                        List.of("y"),
                        branch("then_branch", relu),
                        branch("else_branch", relu)))
                .fuse();
        assertEquals(List.of("Linear", "Add", "If"), Sketch.ops(result));
    }

    @Test
    void the_log_tells_what_was_made_and_what_was_refused() {
        PassLog log = new PassLog();
        new FusePatterns()
                .apply(
                        start().output("z")
                                .weight("w3", 2, 3, 4)
                                .node("m", "MatMul", "x w", "y")
                                .node("n", "MatMul", "x w3", "z")
                                .model(),
                        log);
        assertEquals(
                List.of("fuse-patterns: n: weight 'w3' is not 2-D: [2, 3, 4]", "fuse-patterns: 1 Linear"),
                log.notes().stream().map(PassLog.Note::toString).toList());
    }
}
