package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every verb on models in integers, those that ONNX Runtime's quantizers wrote and those that Octet writes. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class IntegerModelsTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    static Path shared;

    @TempDir
    Path folder;

    /**
     * A model.
     *
     * @param file in testdata, or the recipe that makes it
     * @param linears quantised ones
     * @param form of its weights, as inspect says it
     * @param weightDb least SQNR of a weight
     * @param cosine least mean cosine of the outputs
     * @param tensorrt the rule that TensorRT's demands fail by; empty where they hold
     */
    record Case(String file, int linears, String form, double weightDb, double cosine, String tensorrt) {
        @Override
        public String toString() {
            return file;
        }

        boolean isVit() {
            return file.startsWith("vit");
        }

        Path original() {
            return TESTDATA.resolve("models/tiny-onnx/" + (isVit() ? "vit" : "bert") + "_eager_script17.onnx");
        }
    }

    static Stream<Case> cases() {
        String column = "INT8 per column, scale F32";
        return Stream.of(
                new Case("qdq-u8s8", 14, column, 43, 0.99, "onnx-integer-kind"),
                new Case("qdq-s8s8", 14, column, 43, 0.99, "onnx-integer-kind"),
                new Case("qdq-all", 14, "INT8 per tensor, scale F32", 35, 0.9, "onnx-integer-kind"),
                new Case("qoperator", 14, column, 43, 0.99, "onnx-integer-operator"),
                new Case("dynamic", 14, column, 40, 0.99, "onnx-integer-operator"),
                new Case("nbits4", 14, "UINT4 per 32, scale F32", 17, 0.9, "onnx-integer-operator"),
                new Case("nbits4-zero", 14, "UINT4 per 32, scale F32", 17, 0.9, "onnx-integer-operator"),
                new Case("nbits8", 14, "UINT8 per 32, scale F32", 43, 0.99, "onnx-integer-operator"),
                new Case("qdq4", 14, "INT4 per 32 along axis -2, scale F32", 17, 0.9, "onnx-scale-value"),
                new Case("vit-qdq", 13, column, 43, 0.99, "onnx-integer-kind"),
                new Case("vit-qoperator", 13, column, 43, 0.99, "onnx-integer-operator"),
                new Case("int8", 14, column, 40, 0.99, "onnx-integer-kind"),
                new Case("int8 --target tensorrt", 14, column, 40, 0.98, ""),
                new Case("int8-dynamic --embeddings int8", 14, column, 43, 0.99, "onnx-integer-operator"),
                new Case("int8-weight-only", 14, column, 43, 0.99, ""),
                new Case("int4-weight-only", 14, "INT4 per 32 along axis -2, scale F32", 17, 0.9, ""));
    }

    private static CommandLine run(String... words) {
        return CommandLine.run(words);
    }

    private static JsonNode json(ExitCode code, String... words) throws IOException {
        List<String> all = new ArrayList<>(List.of(words));
        all.addAll(List.of("--json", "--quiet"));
        CommandLine run = run(all.toArray(String[]::new));
        assertEquals(code, run.code(), run.err() + run.out());
        return JSON.readTree(run.out());
    }

    private static void refused(ExitCode code, String reason, String... words) {
        List<String> all = new ArrayList<>(List.of(words));
        all.add("--quiet");
        CommandLine run = run(all.toArray(String[]::new));
        assertEquals(code, run.code(), run.err() + run.out());
        OctetTest.assertThreeLines(run);
        assertTrue(run.err().contains(reason), run.err());
    }

    private static String samples(Case c) throws IOException {
        Path file = shared.resolve(c.isVit() ? "vit.npz" : "bert.npz");
        if (Files.exists(file)) {
            return file.toString();
        }
        if (!c.isVit()) {
            return TinyBert.samples(file, 6, 3).toString();
        }
        SplittableRandom random = new SplittableRandom(3);
        float[] pixels = new float[6 * 3 * 16 * 16];
        for (int i = 0; i < pixels.length; i++) {
            pixels[i] = (float) random.nextGaussian();
        }
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(file)) {
            writer.add(Tensor.ofFloats(arena, "pixel_values", Shape.of(6, 3, 16, 16), pixels));
            writer.commit();
        }
        return file.toString();
    }

    /** The model's file; what Octet makes is made once. */
    private static String model(Case c) throws IOException {
        Path given = TESTDATA.resolve("models/integers/" + c.file() + ".onnx");
        if (Files.exists(given)) {
            return given.toString();
        }
        Path made = shared.resolve(c.file().replace(" ", "") + ".onnx");
        if (!Files.exists(made)) {
            List<String> words = new ArrayList<>(
                    List.of("quantize", c.original().toString(), "-o", made.toString(), "--quiet", "--recipe"));
            words.addAll(List.of(c.file().split(" ")));
            if (c.file().equals("int8") || c.file().startsWith("int8 ")) {
                words.addAll(List.of("--calibration", samples(c)));
            }
            CommandLine run = run(words.toArray(String[]::new));
            assertEquals(ExitCode.OK, run.code(), run.err());
        }
        return made.toString();
    }

    @ParameterizedTest
    @MethodSource("cases")
    void inspect_counts_the_quantised_layers_and_says_how_they_are_stored(Case c) throws IOException {
        JsonNode page = json(ExitCode.OK, "inspect", model(c));
        assertEquals(
                c.linears(),
                page.at("/layers/quantized_linear").asInt(),
                page.at("/layers").toString());
        assertTrue(
                page.at("/quantization/forms").path(c.form()).asInt()
                        >= c.linears() - (c.isVit() ? 1 : 0), // its head is [out, in]
                page.at("/quantization/forms").toString());
    }

    @ParameterizedTest
    @MethodSource("cases")
    void verify_finds_nothing_wrong_for_onnx_runtime_and_names_what_tensorrt_does_not_take(Case c) throws IOException {
        String original = c.original().toString();
        JsonNode good = json(ExitCode.OK, "verify", model(c), "--for", "onnxruntime", "--deep", "--against", original);
        assertEquals(0, good.path("errors").asInt() + good.path("warnings").asInt(), good.toString());
        boolean fits = c.tensorrt().isEmpty();
        JsonNode tensorrt = json(fits ? ExitCode.OK : ExitCode.CHECK_FAILED, "verify", model(c), "--for", "tensorrt");
        Set<String> rules = new HashSet<>();
        tensorrt.path("findings").forEach(f -> rules.add(f.path("rule").asText()));
        assertTrue(fits ? rules.isEmpty() : rules.contains(c.tensorrt()), rules.toString());
    }

    @ParameterizedTest
    @MethodSource("cases")
    void diff_finds_every_weight_of_the_original(Case c) throws IOException {
        JsonNode diff = json(ExitCode.OK, "diff", c.original().toString(), model(c));
        assertEquals(
                0,
                diff.at("/diff/uncomparable").size(),
                diff.at("/diff/uncomparable").toString());
        long compared = 0;
        for (JsonNode pair : diff.at("/diff/tensors")) {
            if (pair.path("scheme_b").asText().contains(", scale")) {
                compared++;
                assertTrue(pair.path("sqnr_db").asDouble() > c.weightDb(), pair.toString());
            }
        }
        assertTrue(
                compared >= c.linears(),
                compared + " of " + diff.at("/diff/tensors").size());
    }

    @ParameterizedTest
    @MethodSource("cases")
    void evaluate_runs_it_beside_the_original(Case c) throws IOException {
        JsonNode result = json(ExitCode.OK, "evaluate", c.original().toString(), model(c), "--data", samples(c));
        double cosine = result.at("/comparison/outputs/0/cosine_mean").asDouble();
        assertTrue(cosine > c.cosine(), result.at("/comparison/outputs").toString());
    }

    @ParameterizedTest
    @MethodSource("cases")
    void convert_writes_it_in_standard_operators_with_the_same_outputs(Case c) throws IOException {
        String standard = folder.resolve("standard.onnx").toString();
        json(ExitCode.OK, "convert", model(c), "-o", standard, "--target", "onnx");
        JsonNode result = json(ExitCode.OK, "evaluate", model(c), standard, "--data", samples(c));
        assertTrue(
                result.at("/comparison/outputs/0/cosine_min").asDouble() > 0.99999,
                result.at("/comparison/outputs").toString());
    }

    @ParameterizedTest
    @MethodSource("cases")
    void verbs_that_need_weights_in_floats_say_that_it_is_quantised(Case c) throws IOException {
        String again = c.linears() + " Linears have weights in 8 bits or fewer";
        String model = model(c);
        String out = folder.resolve("out").toString();
        refused(ExitCode.INPUT, again, "quantize", model, "-o", out + ".onnx", "--recipe", "int8-dynamic");
        refused(ExitCode.INPUT, again, "calibrate", model, "-o", out, "--data", samples(c));
        refused(ExitCode.INPUT, again, "sensitivity", model, "--data", samples(c));
        refused(ExitCode.USAGE, "is an ONNX model, and checkpoints", "dequantize", model, "-o", out);
        refused(
                ExitCode.INPUT,
                "the weights of " + c.linears() + " Linears are quantised",
                "convert",
                model,
                "-o",
                out,
                "--target",
                "huggingface");
    }
}
