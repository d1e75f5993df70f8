package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Models of {@code x [batch, 8]} and a sampling rate, a single number, as voice detectors have them: the rate chooses between two branches
 * with a Linear each.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class BranchingModelTest {
    private static final int SAMPLES = 6;
    private static final int WIDTH = 8;
    private static final ValueType ROWS = new ValueType.TensorType(DType.F32, List.of(Dim.of("batch"), Dim.of(WIDTH)));

    @TempDir
    Path folder;

    private Path branching;
    private Path data;

    @BeforeEach
    void write() throws IOException {
        branching = model("branching", false);
        data = npz(Shape.SCALAR, 16_000);
    }

    private static Tensor noise(String name, long... dims) {
        SplittableRandom random = new SplittableRandom(name.hashCode());
        float[] values = new float[(int) Shape.of(dims).elementCount()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(dims), values);
    }

    private static Attribute branch(String name) {
        Graph body = Graph.of(
                name,
                List.of(Node.of(name + "_linear", "MatMul", List.of("x", name + "_w"), List.of(name + "_y"))),
                List.of(Initializer.of(noise(name + "_w", WIDTH, WIDTH))),
                List.of(),
                List.of(new ValueInfo(name + "_y", ROWS)));
        return new Attribute(name, new Attribute.OfGraph(body));
    }

    /** With a Linear behind the branches where {@code linear}. */
    private Path model(String name, boolean linear) throws IOException {
        List<Node> nodes = new ArrayList<>(List.of(
                Node.of("is_high", "Equal", List.of("rate", "high"), List.of("high_rate")),
                Node.of(
                        "choice",
                        "If",
                        List.of("high_rate"),
                        List.of("chosen"),
                        branch("then_branch"),
                        branch("else_branch"))));
        List<Initializer> constants =
                new ArrayList<>(List.of(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), "high", Shape.SCALAR, 16_000))));
        if (linear) {
            nodes.add(Node.of("head", "MatMul", List.of("chosen", "head_w"), List.of("y")));
            constants.add(Initializer.of(noise("head_w", WIDTH, WIDTH)));
        }
        ValueType rate = new ValueType.TensorType(DType.I64, List.of());
        Path file = folder.resolve(name + ".onnx");
        OnnxWriter.write(
                GraphModel.of(
                        Graph.of(
                                name,
                                nodes,
                                constants,
                                List.of(new ValueInfo("x", ROWS), new ValueInfo("rate", rate)),
                                List.of(new ValueInfo(linear ? "y" : "chosen", ROWS))),
                        8,
                        17),
                file);
        return file;
    }

    private Path npz(Shape shape, long... rates) throws IOException {
        Path file = folder.resolve("data" + rates.length + ".npz");
        try (NpzWriter w = NpzWriter.stored(file)) {
            w.add(noise("x", SAMPLES, WIDTH));
            w.add(Tensor.ofLongs(Arena.ofAuto(), "rate", shape, rates));
            w.commit();
        }
        return file;
    }

    private String path(String name) {
        return folder.resolve(name).toString();
    }

    private static CommandLine ok(String... words) {
        CommandLine run = CommandLine.run(words);
        assertEquals(ExitCode.OK, run.code(), run.err());
        return run;
    }

    private static JsonNode json(String... words) throws IOException {
        return new ObjectMapper().readTree(ok(words).out());
    }

    @Test
    void inspect_counts_the_linears_in_bodies_and_says_that_they_stay() throws IOException {
        JsonNode layers = json("inspect", "--json", branching.toString()).get("layers");
        assertEquals(0, layers.get("linear").asInt());
        assertEquals(2, layers.get("linear_in_bodies").asInt());
        String page = ok("inspect", branching.toString()).out();
        assertTrue(page.contains("2 Linear in bodies of If, Loop or Scan, which stay as they are"), page);
    }

    @Test
    void quantize_lists_the_branching_first_and_every_linear_in_it_as_kept() throws IOException {
        Path model = model("headed", true);
        JsonNode answer = json("quantize", model.toString(), "-o", path("q.onnx"), "--dry-run", "--json");
        assertEquals(
                "{\"kind\":\"Linear\",\"converted\":1,\"total\":3,\"means\":\"in FP8\"}",
                answer.get("layers").get(0).toString());
        JsonNode kept = answer.get("kept");
        assertEquals("control flow", kept.get(0).get("kind").asText());
        assertEquals(
                "If passes through with its bodies, 2 Linear in them",
                kept.get(0).get("reason").asText());
        assertEquals(
                "choice/then_branch/then_branch_linear", kept.get(1).get("node").asText());
        assertEquals(
                "it is in a body of If 'choice', which passes through as it is",
                kept.get(1).get("reason").asText());
        assertEquals(3, kept.size());
    }

    @Test
    void a_model_without_a_linear_of_its_own_has_nothing_to_calibrate_and_the_message_says_so() {
        for (String[] words : new String[][] {
            {"calibrate", branching.toString(), "-o", path("s.stats"), "--data", data.toString()},
            {"calibrate", branching.toString(), "-o", path("s.stats"), "--data", data.toString(), "--dry-run"},
            {"quantize", branching.toString(), "-o", path("q.onnx"), "--calibration", data.toString()}
        }) {
            CommandLine run = CommandLine.run(words);
            assertEquals(ExitCode.INPUT, run.code(), run.err());
            assertTrue(
                    run.err()
                            .contains("there is nothing to "
                                    + (words[0].equals("calibrate") ? "calibrate" : "quantise")
                                    + ": all 2 Linears are kept"),
                    run.err());
            assertTrue(run.err().contains("control flow choice: If passes through with its bodies"), run.err());
        }
        assertFalse(Files.exists(folder.resolve("s.stats")));
        assertFalse(Files.exists(folder.resolve("q.onnx")));
    }

    @Test
    void the_rate_is_given_as_one_number_or_one_for_each_sample() throws IOException {
        Path model = model("headed", true);
        Path mixed = npz(Shape.of(SAMPLES), 8_000, 16_000, 16_000, 8_000, 16_000, 16_000);
        for (Path samples : List.of(data, mixed)) {
            String stats = path("stats" + samples.getFileName());
            ok("calibrate", model.toString(), "-o", stats, "--data", samples.toString());
            String output = path("q" + samples.getFileName() + ".onnx");
            ok("quantize", model.toString(), "-o", output, "--calibration", samples.toString());
            JsonNode compared = json("evaluate", model.toString(), output, "--data", samples.toString(), "--json");
            double sqnr = compared.at("/comparison/outputs/0/sqnr_db").asDouble();
            assertTrue(sqnr > 20, compared.toString());
        }
    }
}
