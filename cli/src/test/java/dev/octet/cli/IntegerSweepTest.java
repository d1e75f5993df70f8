package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.model.Model;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Integer recipes over models and opsets in ONNX Runtime; codes and scales beside those of its own quantizer. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class IntegerSweepTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final List<String> RECIPES = List.of("int8", "int8-dynamic", "int8-weight-only", "int4-weight-only");
    private static final int WIDTH = 64;
    private static final int SAMPLES = 8;

    /** How much more noise than the sum of all layers' own the outputs may have: layers amplify what comes from earlier ones. */
    private static final double AMPLIFIED_DB = 12;

    /** Outputs of nothing but noise have 0 dB. */
    private static final double LEAST_DB = 3;

    /** Noise of 255 steps over a range of 32 root mean squares: 10 log10(12) + 20 log10(255 / 32). */
    private static final double INPUT_DB = 28.8;

    @TempDir
    Path folder;

    private static JsonNode json(String... words) throws IOException {
        List<String> all = new ArrayList<>(List.of(words));
        all.addAll(List.of("--json", "--quiet"));
        CommandLine run = CommandLine.run(all.toArray(String[]::new));
        assertEquals(ExitCode.OK, run.code(), run.err() + run.out());
        return new ObjectMapper().readTree(run.out());
    }

    /**
     * Quantises and holds the outputs' error against what the layers' own errors foretell: that of the worst weight, and of inputs whose largest
     * value is sixteen times their root mean square in 8 bits, in every Linear.
     */
    private void check(Path model, String samples, String recipe) throws IOException {
        String made = folder.resolve("made.onnx").toString();
        List<String> words = new ArrayList<>(List.of("quantize", model.toString(), "-o", made, "--recipe", recipe));
        words.addAll(List.of("--rounding", "nearest", "--force"));
        words.addAll(recipe.equals("int8") ? List.of("--calibration", samples) : List.of());
        JsonNode result = json(words.toArray(String[]::new));
        int linears = 0;
        for (JsonNode kind : result.path("layers")) {
            linears += kind.path("kind").asText().equals("Linear")
                    ? kind.path("converted").asInt()
                    : 0;
        }
        assertTrue(linears > 0, result.path("layers").toString());
        double noise = linears * Math.pow(10, -result.path("weight_sqnr_db_min").asDouble() / 10);
        noise += recipe.endsWith("weight-only") ? 0 : linears * Math.pow(10, -INPUT_DB / 10);
        double bound = Math.max(LEAST_DB, -10 * Math.log10(noise) - AMPLIFIED_DB);
        JsonNode compared = json("evaluate", model.toString(), made, "--data", samples);
        double sqnr = compared.at("/comparison/outputs/0/sqnr_db").asDouble();
        assertTrue(sqnr > bound, recipe + ": " + sqnr + " dB, foretold at least " + bound);
    }

    @Tag("sweep")
    @ParameterizedTest
    @MethodSource("dev.octet.cli.TinyExports#models")
    void every_model_runs_in_every_recipe_with_the_error_that_its_layers_foretell(Path model) throws IOException {
        String samples = TinyExports.samples(model, folder.resolve("samples.npz"));
        for (String recipe : RECIPES) {
            check(model, samples, recipe);
        }
    }

    /** Two Linears with a ReLU between, in operators that every opset from 9 on has. */
    private Path network(int opset) throws IOException {
        SplittableRandom random = new SplittableRandom(opset);
        Path file = folder.resolve("network.onnx");
        try (Arena arena = Arena.ofConfined()) {
            List<Node> nodes = new ArrayList<>();
            List<Initializer> constants = new ArrayList<>();
            String x = "x";
            for (String layer : List.of("first", "second")) {
                float[] w = new float[WIDTH * WIDTH];
                for (int i = 0; i < w.length; i++) {
                    w[i] = (float) random.nextGaussian() / 8;
                }
                constants.add(Initializer.of(Tensor.ofFloats(arena, layer + ".weight", Shape.of(WIDTH, WIDTH), w)));
                constants.add(
                        Initializer.of(Tensor.ofFloats(arena, layer + ".bias", Shape.of(WIDTH), new float[WIDTH])));
                String sum = layer.equals("second") ? "y" : layer + "_s";
                nodes.add(Node.of(layer, "MatMul", List.of(x, layer + ".weight"), List.of(layer + "_p")));
                nodes.add(Node.of(layer + "_add", "Add", List.of(layer + "_p", layer + ".bias"), List.of(sum)));
                if (layer.equals("first")) {
                    nodes.add(Node.of("relu", "Relu", List.of(sum), List.of("h")));
                    x = "h";
                }
            }
            List<Dim> dims = List.of(Dim.of("rows"), Dim.of(WIDTH));
            Graph graph = Graph.of(
                    "network",
                    nodes,
                    constants,
                    List.of(new ValueInfo("x", new TensorType(DType.F32, dims))),
                    List.of(new ValueInfo("y", new TensorType(DType.F32, dims))));
            ModelFile.save(Model.of(GraphModel.of(graph, opset < 19 ? 8 : 10, opset)), file);
        }
        return file;
    }

    static IntStream opsets() {
        return IntStream.rangeClosed(9, 23);
    }

    @Tag("sweep")
    @ParameterizedTest
    @MethodSource("opsets")
    void every_opset_runs_in_every_recipe_with_the_error_that_its_layers_foretell(int opset) throws IOException {
        Path model = network(opset);
        SplittableRandom random = new SplittableRandom(7);
        float[] x = new float[SAMPLES * WIDTH];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) random.nextGaussian();
        }
        Path samples = folder.resolve("rows.npz");
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(samples)) {
            writer.add(Tensor.ofFloats(arena, "x", Shape.of(SAMPLES, WIDTH), x));
            writer.commit();
        }
        for (String recipe : RECIPES) {
            check(model, samples.toString(), recipe);
        }
    }

    @ParameterizedTest
    @CsvSource({"bert, qdq-u8s8, 14", "vit, vit-qdq, 13"})
    void codes_and_scales_are_those_of_onnx_runtimes_quantizer(String model, String theirs, int linears)
            throws IOException {
        String original = TESTDATA.resolve("models/tiny-onnx/" + model + "_eager_script17.onnx")
                .toString();
        String ours = folder.resolve("ours.onnx").toString();
        json("quantize", original, "-o", ours, "--recipe", "int8-weight-only");
        String other = TESTDATA.resolve("models/integers/" + theirs + ".onnx").toString();
        CommandLine run = CommandLine.run("diff", other, ours, "--json", "--quiet");
        int same = 0;
        for (JsonNode pair : new ObjectMapper().readTree(run.out()).at("/diff/tensors")) {
            boolean both = pair.path("scheme_a").asText().contains(", scale")
                    && pair.path("scheme_b").asText().contains(", scale");
            if (both) {
                assertEquals(0, pair.path("differing").asInt(), pair.toString());
                JsonNode scales = pair.path("scales"); // null where a matrix lies turned
                assertTrue(scales.isNull() || scales.path("changed").asInt() == 0, pair.toString());
                same++;
            }
        }
        assertEquals(linears, same);
    }
}
