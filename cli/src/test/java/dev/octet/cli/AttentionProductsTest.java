package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** {@code octet quantize --attention fp8} of what exporters make of attention, in ONNX Runtime with default options. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AttentionProductsTest {
    /**
     * Signal over noise that two layers keep at least: four products of operands in E4M3, which has 31 dB for each, amplified by random weights as much
     * as INT8 is in the sweep of integers (12 dB).
     */
    private static final double LEAST_DB = 31 - 10 * 0.9 - 12;

    @TempDir
    Path folder;

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private static CommandLine run(String... words) {
        return CommandLine.run(words);
    }

    private static JsonNode json(String... words) throws IOException {
        CommandLine run = run(Stream.concat(Arrays.stream(words), Stream.of("--json", "--quiet"))
                .toArray(String[]::new));
        assertEquals(ExitCode.OK, run.code(), run.err() + run.out());
        return new ObjectMapper().readTree(run.out());
    }

    private static List<String> quantize(String model, String output, String... more) {
        List<String> words = new ArrayList<>(List.of("quantize", model, "-o", output, "--rounding", "nearest"));
        words.addAll(List.of("--attention", "fp8"));
        words.addAll(List.of(more));
        return words;
    }

    private void check(Path model) throws IOException {
        String samples = TinyExports.samples(model, folder.resolve("samples.npz"));
        String original = model.toString();
        String made = at("made.onnx");
        JsonNode plain = json("quantize", original, "-o", at("plain.onnx"), "--recipe", "fp8-weight-only");
        JsonNode result = json(quantize(original, made, "--recipe", "fp8-weight-only", "--calibration", samples)
                .toArray(String[]::new));
        JsonNode products = StreamSupport.stream(result.path("layers").spliterator(), false)
                .filter(k -> k.path("kind").asText().equals("Attention product"))
                .findFirst()
                .orElseThrow();
        assertEquals(4, products.path("converted").asInt(), "two layers of two products");
        assertEquals(4, products.path("total").asInt());
        assertEquals("in FP8", products.path("means").asText());
        assertTrue(plain.path("converted_bytes").asLong() > 0);
        double sqnr = json("evaluate", at("plain.onnx"), made, "--data", samples)
                .at("/comparison/outputs/0/sqnr_db")
                .asDouble();
        assertTrue(sqnr > LEAST_DB, model.getFileName() + ": " + sqnr + " dB");
        assertEquals(
                0, json("verify", made, "--for", "onnxruntime").path("findings").size());
    }

    static Stream<Path> someModels() throws IOException {
        return TinyExports.models()
                .filter(f ->
                        f.toString().matches(".*(bert_eager_dynamo18|gpt2_eager_script17|llama_eager_script14).*"));
    }

    @ParameterizedTest
    @MethodSource("someModels")
    void both_products_of_every_layer_run_in_8_bit_floats(Path model) throws IOException {
        check(model);
    }

    @Tag("sweep")
    @ParameterizedTest
    @MethodSource("dev.octet.cli.TinyExports#models")
    void both_products_of_every_layer_of_every_export_run_in_8_bit_floats(Path model) throws IOException {
        check(model);
    }

    @Test
    void it_needs_statistics_whatever_the_recipe_and_the_file_says_so() throws IOException {
        String model = TinyBert.MODEL.toString();
        CommandLine without =
                run(quantize(model, at("x.onnx"), "--recipe", "int8-dynamic").toArray(String[]::new));
        assertEquals(ExitCode.USAGE, without.code());
        assertTrue(without.err().contains("--attention fp8 needs the activations' statistics"), without.err());
        String samples = TinyBert.samples(folder.resolve("s.npz"), 6, 1).toString();
        json("calibrate", model, "-o", at("model.stats"), "--data", samples);
        json(quantize(model, at("from-file.onnx"), "--recipe", "int8-dynamic", "--statistics", at("model.stats"))
                .toArray(String[]::new));
        JsonNode inspected = json("inspect", at("from-file.onnx"));
        assertEquals("fp8", inspected.at("/metadata/octet.attention").asText());
        assertEquals("mse", inspected.at("/metadata/octet.calibrator").asText());
        json("evaluate", model, at("from-file.onnx"), "--data", samples, "--gate", "cosine=0.99");
    }

    @Test
    void TensorRT_gets_both_products_between_plain_quantizers() throws IOException {
        String model = TinyBert.MODEL.toString();
        String samples = TinyBert.samples(folder.resolve("s.npz"), 6, 1).toString();
        json(quantize(model, at("trt.onnx"), "--recipe", "fp8", "--target", "tensorrt", "--calibration", samples)
                .toArray(String[]::new));
        assertEquals(
                0,
                json("verify", at("trt.onnx"), "--for", "tensorrt")
                        .path("findings")
                        .size());
        json(quantize(
                        model,
                        at("half.onnx"),
                        "--recipe",
                        "fp8",
                        "--target",
                        "tensorrt",
                        "--calibration",
                        samples,
                        "--keep",
                        "layer.0/attention/self/MatMul$")
                .toArray(String[]::new));
        JsonNode findings = json("verify", at("half.onnx"), "--for", "tensorrt").path("findings");
        assertEquals("onnx-attention", findings.path(0).path("rule").asText());
    }
}
