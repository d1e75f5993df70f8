package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.onnx.OnnxWriter;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Nodes that lack what their operator says: whatever reads a file must say so in words, or look past it. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class HostileNodesTest {
    private static final Path EXPORT =
            Path.of(System.getProperty("octet.testdata"), "models/tiny-onnx/gpt2_eager_script17.onnx");

    @TempDir
    private static Path folder;

    private static Path quantised;
    private static ModelFile file;
    private static GraphModel model;

    @BeforeAll
    static void quantise() throws IOException {
        quantised = folder.resolve("quantised.onnx");
        CommandLine run = CommandLine.run(
                "quantize",
                EXPORT.toString(),
                "-o",
                quantised.toString(),
                "--recipe",
                "fp8-weight-only",
                "--target",
                "tensorrt");
        assertTrue(run.code() == ExitCode.OK, run.err());
        file = ModelFile.open(quantised);
        model = file.model().graph().orElseThrow();
    }

    @AfterAll
    static void close() {
        file.close();
    }

    /** One node of each operator, and a Constant. */
    private static List<Node> nodes() {
        Map<String, Node> byOperator = new LinkedHashMap<>();
        model.graph().nodes().forEach(n -> byOperator.putIfAbsent(n.opType(), n));
        return List.copyOf(byOperator.values());
    }

    private static void check(Node replaced, Node hostile) throws IOException {
        List<Node> nodes = new ArrayList<>(model.graph().nodes());
        if (nodes.contains(replaced)) {
            nodes.set(nodes.indexOf(replaced), hostile);
        } else {
            nodes.add(hostile);
        }
        Graph g = model.graph();
        Path changed = folder.resolve("hostile.onnx");
        OnnxWriter.write(
                model.withGraph(
                        Graph.of(g.name(), nodes, List.copyOf(g.initializers().values()), g.inputs(), g.outputs())),
                changed);
        for (String[] words : new String[][] {
            {"verify", changed.toString()},
            {"inspect", changed.toString()},
            {"diff", quantised.toString(), changed.toString()},
            {"diff", changed.toString(), quantised.toString()}
        }) {
            CommandLine run = CommandLine.run(words);
            assertNotEquals(ExitCode.BUG, run.code(), words[0] + " of " + hostile + ": " + run.err());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"no outputs", "no inputs", "empty names", "no attributes"})
    void a_node_that_lacks_something_is_no_bug_for_verify_inspect_and_diff(String lack) throws IOException {
        for (Node n : nodes()) {
            check(
                    n,
                    switch (lack) {
                        case "no outputs" -> n.withOutputs(List.of());
                        case "no inputs" -> n.withInputs(List.of());
                        case "empty names" ->
                            n.withInputs(n.inputs().stream().map(i -> "").toList())
                                    .withOutputs(List.of(""));
                        default -> n.withAttributes(Map.of());
                    });
        }
    }

    @Test
    void a_constant_without_outputs_is_no_bug_either() throws IOException {
        Initializer value = model.graph().initializers().values().iterator().next();
        Node constant = Node.of("hostile", "Constant", List.of(), List.of(), Attribute.of("value", value.withName("")));
        check(constant, constant);
        check(constant, constant.withOutputs(List.of("")));
    }
}
