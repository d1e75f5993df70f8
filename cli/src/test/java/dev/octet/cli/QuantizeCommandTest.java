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
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What {@code octet quantize} and its neighbours say: of models that are quantised already, of the other kind of model, of what comes next. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QuantizeCommandTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String MODEL = TinyBert.MODEL.toString();
    private static final String LLAMA =
            TESTDATA.resolve("checkpoints/llama-128-small").toString();

    @TempDir
    Path folder;

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private static String ok(String... words) {
        CommandLine run = CommandLine.run(quiet(words));
        assertEquals(ExitCode.OK, run.code(), run.err());
        return run.out();
    }

    private static String refused(ExitCode code, String... words) {
        CommandLine run = CommandLine.run(quiet(words));
        assertEquals(code, run.code(), run.out() + run.err());
        OctetTest.assertThreeLines(run);
        return run.err();
    }

    private static String[] quiet(String... words) {
        return Stream.concat(Arrays.stream(words), Stream.of("--quiet")).toArray(String[]::new);
    }

    private static void assertSays(String text, String... parts) {
        for (String part : parts) {
            assertTrue(text.contains(part), text);
        }
    }

    private String weightsOnly() {
        ok("quantize", MODEL, "-o", at("fp8.onnx"), "--recipe", "fp8-weight-only");
        return at("fp8.onnx");
    }

    @Test
    void a_quantised_onnx_model_is_not_quantised_again() {
        String again = refused(
                ExitCode.INPUT, "quantize", weightsOnly(), "-o", at("again.onnx"), "--recipe", "fp8-weight-only");
        assertSays(again, "the model is quantised already: 14 Linears", "quantise the model in floats");
        assertFalse(Files.exists(folder.resolve("again.onnx")));
        assertSays(
                ok("quantize", at("fp8.onnx"), "-o", at("again.onnx"), "--recipe", "fp8-weight-only", "--dry-run"),
                "note: the model is quantised already");
    }

    @Test
    void a_model_of_which_nothing_would_be_quantised_is_refused() {
        String all = refused(
                ExitCode.INPUT, "quantize", MODEL, "-o", at("kept.onnx"), "--recipe", "fp8-weight-only", "--keep", ".");
        assertSays(all, "there is nothing to quantise: all 14 Linears are kept", "asked to keep it");
    }

    @Test
    void a_quantised_onnx_model_is_no_checkpoint_because_its_weights_are_quantised() {
        String reason = refused(ExitCode.INPUT, "convert", weightsOnly(), "-o", at("hf"), "--target", "huggingface");
        assertSays(reason, "the weights of 14 Linears are quantised");
    }

    @Test
    void a_checkpoint_that_is_quantised_again_says_that_it_rounds_twice() {
        ok("quantize", LLAMA, "-o", at("first"));
        String page = ok("quantize", at("first"), "-o", at("second"), "--recipe", "nvfp4");
        assertSays(page, "7 weights were quantised before (compressed-tensors) and are rounded a second time");
    }

    @Test
    void gptq_of_a_checkpoint_without_second_moments_is_refused_with_the_command_that_makes_them() {
        assertSays(
                refused(ExitCode.USAGE, "quantize", LLAMA, "-o", at("x"), "--rounding", "gptq"),
                "--rounding gptq needs second moments of the layers' inputs",
                "octet calibrate " + LLAMA + " -o FILE --data DATA --second-moments",
                "--statistics FILE");
        assertFalse(Files.exists(folder.resolve("x")));
    }

    @Test
    void samples_are_for_onnx_models_and_checkpoints_take_statistics() throws IOException {
        String samples = TinyBert.samples(folder.resolve("s.npz"), 3, 1).toString();
        for (String option : List.of("--calibration", "--data")) {
            assertSays(
                    refused(ExitCode.USAGE, "quantize", LLAMA, "-o", at("x"), option, samples),
                    option + " is for ONNX models",
                    "let calibrate write statistics",
                    "--statistics FILE");
        }
    }

    @Test
    void a_recipe_or_target_of_the_other_kind_of_model_is_known() {
        assertSays(
                refused(ExitCode.USAGE, "quantize", MODEL, "-o", at("x.onnx"), "--recipe", "mxfp8"),
                "recipe 'mxfp8' is for checkpoints, not for ONNX models",
                "fp8-weight-only");
        assertSays(
                refused(ExitCode.USAGE, "quantize", MODEL, "-o", at("x.onnx"), "--target", "vllm"),
                "target 'vllm' is for checkpoints, not for ONNX models",
                "onnxruntime, tensorrt");
        assertSays(
                refused(ExitCode.USAGE, "quantize", LLAMA, "-o", at("x"), "--recipe", "fp8-per-channel"),
                "recipe 'fp8-per-channel' is for ONNX models, not for checkpoints");
    }

    @Test
    void a_target_may_be_who_loads_it() {
        String page = ok("quantize", LLAMA, "-o", at("v"), "--target", "tensorrt-llm", "--recipe", "nvfp4");
        assertSays(page, "modelopt for tensorrt-llm (NVIDIA's own)", "octet verify " + at("v") + " --for tensorrt-llm");
        ok("verify", at("v"), "--for", "tensorrt-llm");
        assertSays(
                refused(ExitCode.USAGE, "quantize", LLAMA, "-o", at("x"), "--target", "sglang", "--recipe", "mxfp8"),
                "sglang loads mxfp8 in no layout",
                "nvfp4 (with --statistics)");
        assertSays(refused(ExitCode.USAGE, "quantize", LLAMA, "-o", at("x"), "--target", "vlm"), "did you mean vllm");
    }

    @Test
    void who_loads_it_is_a_target_of_quantize_only_and_other_verbs_name_its_layouts() {
        ok("quantize", LLAMA, "-o", at("fp8"));
        for (String verb : List.of("convert", "export")) {
            assertSays(
                    refused(ExitCode.USAGE, verb, at("fp8"), "-o", at("x"), "--target", "vllm"),
                    "'vllm' is a target of quantize only",
                    "vllm loads compressed-tensors, fp8");
        }
    }

    @Test
    void what_comes_next_is_printed_as_lines_to_copy() throws IOException {
        assertSays(
                ok("quantize", LLAMA, "-o", at("a b")),
                "rounding  nearest",
                "check: octet verify '" + at("a b") + "' --for vllm\nserve: vllm serve '" + at("a b") + "'\n");
        String samples = TinyBert.samples(folder.resolve("s.npz"), 3, 1).toString();
        String page = ok("quantize", MODEL, "-o", at("m.onnx"), "--data", samples);
        assertSays(page, "check: octet evaluate " + MODEL + " " + at("m.onnx") + " --data HELD-OUT.npz\n");
        assertFalse(ok("quantize", LLAMA, "-o", at("c"), "--dry-run").contains("check:"));
    }

    @Test
    void heads_of_onnx_models_are_named_because_checkpoints_keep_them() {
        assertSays(
                ok("quantize", MODEL, "-o", at("m.onnx"), "--recipe", "fp8-weight-only", "--dry-run"),
                "quantised, too: m.cls.predictions",
                "(checkpoints keep heads, here --keep does)");
    }

    @Test
    void a_file_where_a_folder_is_meant_and_a_folder_where_a_file_is_meant_are_refused_before_any_work()
            throws IOException {
        Files.createDirectory(folder.resolve("there"));
        String samples = TinyBert.samples(folder.resolve("s.npz"), 3, 1).toString();
        assertSays(refused(ExitCode.USAGE, "quantize", LLAMA, "-o", at("x.onnx")), "names an ONNX file");
        assertSays(refused(ExitCode.USAGE, "dequantize", LLAMA, "-o", at("x.onnx")), "names an ONNX file");
        assertSays(refused(ExitCode.USAGE, "quantize", LLAMA, "-o", samples), "is a file, but the output is a folder");
        for (String output : List.of("there", "name")) {
            assertSays(
                    refused(
                            ExitCode.USAGE,
                            "quantize",
                            MODEL,
                            "-o",
                            at(output),
                            "--force",
                            "--recipe",
                            "fp8-weight-only"),
                    "is not a name for an ONNX file");
        }
        assertSays(
                refused(ExitCode.USAGE, "calibrate", MODEL, "-o", at("there"), "--calibration", samples),
                "is a folder");
    }

    @Test
    void data_and_calibration_are_one_option() throws IOException {
        String samples = TinyBert.samples(folder.resolve("s.npz"), 3, 1).toString();
        ok("quantize", MODEL, "-o", at("a.onnx"), "--data", samples);
        ok("quantize", MODEL, "-o", at("b.onnx"), "--calibration", samples);
        assertEquals(-1, Files.mismatch(folder.resolve("a.onnx"), folder.resolve("b.onnx")));
        ok("evaluate", MODEL, at("a.onnx"), "--calibration", samples, "--no-layers");
        assertSays(
                refused(
                        ExitCode.USAGE,
                        "quantize",
                        MODEL,
                        "-o",
                        at("c.onnx"),
                        "--data",
                        samples,
                        "--calibration",
                        samples),
                "name the same thing");
    }

    @Test
    void a_missing_option_is_said_before_a_missing_input_and_that_before_an_existing_output() throws IOException {
        String output =
                Files.writeString(folder.resolve("there.onnx"), "precious").toString();
        String none = at("none");
        for (List<String> verb : List.of(
                List.of("quantize", none, "-o", output),
                List.of("calibrate", none, "-o", output, "--data", none),
                List.of("calibrate", MODEL, "-o", output, "--data", none),
                List.of("convert", none, "-o", output, "--target", "onnx"),
                List.of("export", none, "-o", output, "--target", "onnx"),
                List.of("dequantize", none, "-o", output),
                List.of("evaluate", MODEL, none, "--data", none),
                List.of("evaluate", MODEL, MODEL, "--data", at("none.jsonl")))) {
            assertSays(refused(ExitCode.IO, verb.toArray(String[]::new)), "no such file or folder", none);
        }
        for (List<String> verb : List.of(
                List.of("quantize", none),
                List.of("calibrate", none, "--data", none),
                List.of("calibrate", none, "-o", output),
                List.of("convert", none),
                List.of("export", none, "-o", output),
                List.of("export", none, "--target", "onnx"),
                List.of("dequantize", none),
                List.of("evaluate", none, none))) {
            assertSays(refused(ExitCode.USAGE, verb.toArray(String[]::new)), "missing --");
        }
        assertSays(
                refused(ExitCode.USAGE, "export", folder.toString(), "-o", output, "--target", "onnx"),
                "the folder is not a run");
    }

    @Test
    void embeddings_in_8_bits_make_the_file_smaller_and_other_verbs_know_them() throws IOException {
        String floats = weightsOnly();
        String page =
                ok("quantize", MODEL, "-o", at("int8.onnx"), "--recipe", "fp8-weight-only", "--embeddings", "int8");
        assertSays(page, "2 of 3 Embedding in INT8", "its table is small: [2, 32]");
        long saved = Files.size(Path.of(floats)) - Files.size(folder.resolve("int8.onnx"));
        assertTrue(saved > 13_000, saved + " bytes of (101 + 64) x 32 x 3");
        String samples = TinyBert.samples(folder.resolve("s.npz"), 6, 1).toString();
        ok("evaluate", MODEL, at("int8.onnx"), "--data", samples, "--gate", "cosine=0.998");
        assertSays(ok("diff", MODEL, at("int8.onnx")), "m.bert.embeddings.word_embeddings.weight", "INT8");
        ok("verify", at("int8.onnx"));
        assertSays(ok("inspect", at("int8.onnx")), "I8 ", "octet.embeddings");
        ok("convert", at("int8.onnx"), "-o", at("standard.onnx"), "--target", "onnx");
        assertSays(
                refused(ExitCode.USAGE, "dequantize", at("int8.onnx"), "-o", at("floats")),
                "is an ONNX model, and checkpoints of tensors are meant");
    }

    @Test
    void embeddings_in_8_bits_are_for_onnx_runtime_and_integers() {
        String[] line = {"quantize", MODEL, "-o", at("x.onnx"), "--recipe", "fp8-weight-only", "--embeddings", "fp8"};
        assertSays(refused(ExitCode.USAGE, line), "ONNX's Gather takes no 8-bit floats", "--embeddings int8");
        line[line.length - 1] = "int8";
        assertSays(
                refused(
                        ExitCode.USAGE,
                        Stream.concat(Arrays.stream(line), Stream.of("--target", "tensorrt"))
                                .toArray(String[]::new)),
                "--embeddings, --convolutions and --attention int8 are for --target onnxruntime");
        assertSays(
                refused(ExitCode.USAGE, "quantize", LLAMA, "-o", at("x"), "--embeddings", "int8"),
                "--embeddings is for ONNX models",
                "--include embed");
    }

    /** Two convolutions; outputs of the first add up 75 products, of the second 9. */
    private Path convolutions() throws IOException {
        SplittableRandom random = new SplittableRandom(11);
        Arena arena = Arena.ofAuto();
        Tensor first = Tensor.ofFloats(arena, "stem.weight", Shape.of(16, 3, 5, 5), normal(random, 16 * 75));
        Tensor second = Tensor.ofFloats(arena, "deep.weight", Shape.of(16, 1, 3, 3), normal(random, 16 * 9));
        Graph graph = Graph.of(
                "convolutions",
                List.of(
                        Node.of("stem", "Conv", List.of("x", "stem.weight"), List.of("s")),
                        Node.of(
                                "deep",
                                "Conv",
                                "",
                                List.of("s", "deep.weight"),
                                List.of("y"),
                                Attribute.of("group", 16))),
                List.of(Initializer.of(first), Initializer.of(second)),
                List.of(picture("x", 3, 12)),
                List.of(picture("y", 16, 6)));
        Path file = folder.resolve("convolutions.onnx");
        OnnxWriter.write(GraphModel.of(graph, 8, 13), file);
        return file;
    }

    private static float[] normal(SplittableRandom random, int n) {
        float[] values = new float[n];
        for (int i = 0; i < n; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    private static ValueInfo picture(String name, int channels, int side) {
        return new ValueInfo(
                name,
                new ValueType.TensorType(
                        DType.F32, List.of(Dim.of("n"), Dim.of(channels), Dim.of(side), Dim.of(side))));
    }

    @Test
    void convolutions_keep_their_weights_in_8_bit_floats_and_other_verbs_know_them() throws IOException {
        String model = convolutions().toString();
        String[] line = {
            "quantize", model, "-o", at("conv.onnx"), "--recipe", "fp8-weight-only", "--convolutions", "fp8"
        };
        assertSays(ok(line), "1 of 2 Conv in FP8", "its outputs are sums of few products, 9");
        ok("verify", at("conv.onnx"), "--deep", "--against", model);
        assertSays(ok("diff", model, at("conv.onnx")), "stem.weight", "E4M3FN per channel");
        assertSays(ok("inspect", at("conv.onnx")), "E4M3FN per channel, scale F32", "octet.convolutions");
        ok("convert", at("conv.onnx"), "-o", at("standard.onnx"), "--target", "onnx");
        ok("quantize", model, "-o", at("default.onnx"), "--convolutions", "fp8"); // no Linear, so no data
        line[1] = at("conv.onnx");
        line[3] = at("again.onnx");
        assertSays(refused(ExitCode.INPUT, line), "the model is quantised already: 1 convolution has weights");
        assertSays(
                refused(ExitCode.USAGE, "dequantize", at("conv.onnx"), "-o", at("floats")),
                "is an ONNX model, and checkpoints of tensors are meant");
        line[1] = model;
        assertSays(
                refused(
                        ExitCode.USAGE,
                        Stream.concat(Arrays.stream(line), Stream.of("--target", "tensorrt"))
                                .toArray(String[]::new)),
                "are for --target onnxruntime",
                "convolutions in 8-bit floats only with their inputs");
    }

    private String samples() throws IOException {
        Path file = folder.resolve("s.npz");
        return Files.exists(file)
                ? file.toString()
                : TinyBert.samples(file, 24, 1).toString();
    }

    private static JsonNode json(String... words) throws IOException {
        return new ObjectMapper()
                .readTree(ok(
                        Stream.concat(Arrays.stream(words), Stream.of("--json")).toArray(String[]::new)));
    }

    @Test
    void weights_alone_are_quantised_where_asked_for_and_the_rest_with_its_inputs() throws IOException {
        String pattern = "output\\.dense";
        String page = ok(
                "quantize",
                MODEL,
                "-o",
                at("w.onnx"),
                "--recipe",
                "int8",
                "--calibration",
                samples(),
                "--weight-only",
                pattern);
        assertSays(page, "14 of 14 Linear in INT8", "note: weights alone, inputs stay in floats: ", "mse");
        assertSays(ok("inspect", at("w.onnx")), "octet.weight_only", "output.dense.weight");
        ok("evaluate", MODEL, at("w.onnx"), "--data", samples(), "--gate", "cosine=0.999");
        ok("quantize", MODEL, "-o", at("d.onnx"), "--recipe", "int8-dynamic", "--weight-only", pattern);
        ok("evaluate", MODEL, at("d.onnx"), "--data", samples(), "--gate", "cosine=0.999");
        ok(
                "quantize",
                MODEL,
                "-o",
                at("f.onnx"),
                "--recipe",
                "fp8",
                "--calibration",
                samples(),
                "--weight-only",
                pattern);
        ok("evaluate", MODEL, at("f.onnx"), "--data", samples(), "--gate", "cosine=0.99");
        assertSays(
                refused(
                        ExitCode.USAGE,
                        "quantize",
                        MODEL,
                        "-o",
                        at("x.onnx"),
                        "--recipe",
                        "int8-dynamic",
                        "--weight-only",
                        "nothing"),
                "pattern 'nothing' matches no Linear that is quantised",
                "patterns are searched in node ids");
        assertSays(
                refused(ExitCode.USAGE, "quantize", LLAMA, "-o", at("x"), "--weight-only", "q_proj"),
                "--weight-only is for ONNX models");
    }

    @Test
    void smoothquant_changes_onnx_models_before_they_are_quantised() throws IOException {
        for (String recipe : List.of("int8", "int8-dynamic")) {
            String file = at(recipe + ".onnx");
            ok(
                    "quantize",
                    MODEL,
                    "-o",
                    file,
                    "--recipe",
                    recipe,
                    "--calibration",
                    samples(),
                    "--transform",
                    "smoothquant:0.75");
            assertSays(ok("inspect", file), "octet.transform", "smoothquant:0.75");
            ok("evaluate", MODEL, file, "--data", samples(), "--gate", "cosine=0.999");
        }
        assertSays(
                refused(
                        ExitCode.USAGE,
                        "quantize",
                        MODEL,
                        "-o",
                        at("x.onnx"),
                        "--recipe",
                        "int8-dynamic",
                        "--transform",
                        "smoothquant"),
                "--transform smoothquant needs the largest magnitudes of the layers' inputs",
                "--calibration FILE or --statistics FILE");
        assertSays(
                refused(
                        ExitCode.USAGE,
                        "quantize",
                        MODEL,
                        "-o",
                        at("x.onnx"),
                        "--recipe",
                        "int8-dynamic",
                        "--transform",
                        "awq"),
                "--transform awq is for checkpoints");
        assertSays(
                refused(
                        ExitCode.USAGE,
                        "quantize",
                        MODEL,
                        "-o",
                        at("x.onnx"),
                        "--recipe",
                        "int8-weight-only",
                        "--transform",
                        "smoothquant"),
                "leaves them as they are");
    }

    @Test
    void products_that_can_saturate_are_counted_and_can_be_excluded() throws IOException {
        String[] line = {"quantize", MODEL, "-o", at("a.onnx"), "--recipe", "int8-dynamic"};
        JsonNode before = json(line).path("products");
        assertTrue(before.path("saturating_pairs").asLong() > 0, before.toString());
        assertEquals(14, before.path("saturating_linears").asInt(), before.toString());
        line[3] = at("b.onnx");
        JsonNode after = json(Stream.concat(Arrays.stream(line), Stream.of("--reduce-range"))
                        .toArray(String[]::new))
                .path("products");
        assertEquals(0, after.path("saturating_pairs").asLong(), after.toString());
        assertSays(ok("inspect", at("b.onnx")), "octet.reduce_range");
        ok("evaluate", MODEL, at("b.onnx"), "--data", samples(), "--gate", "cosine=0.999");
        line[3] = at("c.onnx");
        line[5] = "int8-weight-only";
        assertEquals(0, json(line).path("products").path("saturating_pairs").asLong());
        assertSays(
                refused(
                        ExitCode.USAGE,
                        "quantize",
                        MODEL,
                        "-o",
                        at("x.onnx"),
                        "--recipe",
                        "fp8-weight-only",
                        "--reduce-range"),
                "--reduce-range is for recipes whose products are of integers of 8 bits");
    }

    @Test
    void four_bits_are_rounded_with_compensation_in_their_groups() throws IOException {
        String[] line = {
            "quantize", MODEL, "-o", at("a.onnx"), "--recipe", "int4-weight-only", "--calibration", samples()
        };
        assertSays(ok(line), "gptq (second moments of the samples)", "MatMulNBits, 4 bits");
        line[3] = at("b.onnx");
        ok(Stream.concat(Arrays.stream(line), Stream.of("--rounding", "nearest"))
                .toArray(String[]::new));
        double compensated = cosine("a.onnx");
        double nearest = cosine("b.onnx");
        assertTrue(1 - compensated < 0.8 * (1 - nearest), compensated + " and " + nearest);
    }

    private double cosine(String file) throws IOException {
        return json("evaluate", MODEL, at(file), "--data", samples())
                .findValue("cosine_mean")
                .asDouble();
    }
}
