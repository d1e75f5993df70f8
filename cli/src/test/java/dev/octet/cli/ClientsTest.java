package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Batch;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.formats.npy.NpzFile;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Real clients open what Octet writes: Python with safetensors, torch and transformers, from the interpreter that {@code octet.python}
 * names: {@code mvn verify -Pclients -Doctet.python=/path/to/python}. Skipped, with the reason, where that is missing.
 */
@Tag("clients")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ClientsTest {
    private static final Path ROOT =
            Path.of(System.getProperty("octet.root")).toAbsolutePath().normalize();
    private static final Path CHECKPOINTS = ROOT.resolve("testdata").resolve("checkpoints");
    private static final Path LLAMA = CHECKPOINTS.resolve("llama-128");
    private static final int MISSING_LIBRARY = 3;
    private static final double MOST_NOISE = 0.4;

    @TempDir
    Path folder;

    record Pair(Recipe recipe, Layout target) {
        @Override
        public String toString() {
            return recipe.name() + " for " + target.name();
        }
    }

    private record Answer(int code, String text) {}

    @BeforeAll
    static void python_is_there() throws IOException, InterruptedException {
        needs(System.getProperty("octet.python") != null, "no -Doctet.python=/path/to/python");
        Answer answer = python("-c", "import torch, safetensors, transformers");
        needs(answer.code() == 0, "octet.python lacks torch, safetensors or transformers: " + answer.text());
    }

    private static void needs(boolean condition, String reason) {
        if (!condition) {
            System.out.println("skipped: " + reason);
        }
        assumeTrue(condition, reason);
    }

    private static Answer python(String... words) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(System.getProperty("octet.python")));
        command.addAll(List.of(words));
        Path out = Files.createTempFile("octet-clients", ".txt");
        try {
            Process process = new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectOutput(out.toFile())
                    .start();
            int code = process.waitFor();
            return new Answer(
                    code, Files.readString(out, StandardCharsets.UTF_8).strip());
        } finally {
            Files.delete(out);
        }
    }

    private static String script(String name) {
        return ROOT.resolve("bench").resolve("clients").resolve(name).toString();
    }

    private static Stream<Pair> pairs() {
        return Recipes.CHECKPOINT.stream()
                .flatMap(r -> Layouts.ALL.stream()
                        .filter(l -> l.scheme(r, LayoutOptions.defaults()).isPresent())
                        .map(l -> new Pair(r, l)));
    }

    /** The layouts that transformers has a reader for; per tensor it reads other names than vLLM does in layout fp8. */
    private static Stream<Pair> pairsOfTransformers() {
        return pairs().filter(p -> p.target().name().equals("compressed-tensors")
                || (p.target().name().equals("fp8") && p.recipe().name().equals("fp8-block")));
    }

    private Path quantize(Path model, Pair pair) {
        Path out = folder.resolve(pair.recipe().name() + "-" + pair.target().name());
        CommandLine run = CommandLine.run(
                "quantize",
                model.toString(),
                "-o",
                out.toString(),
                "--recipe",
                pair.recipe().name(),
                "--target",
                pair.target().name());
        assertEquals(ExitCode.OK, run.code(), run.err());
        return out;
    }

    private static void print(Pair pair, Answer answer) {
        System.out.println(pair + ": " + answer.text());
    }

    @ParameterizedTest
    @MethodSource("pairs")
    void safetensors_and_torch_read_every_weight_back(Pair pair) throws IOException, InterruptedException {
        Path quantized = quantize(LLAMA, pair);
        Answer answer = python(script("read_checkpoint.py"), quantized.toString(), LLAMA.toString());
        print(pair, answer);
        assertEquals(0, answer.code(), answer.text());
    }

    /**
     * The cosine of logits to those of the original is at least 0.98 for eight bits. Codes of E4M3 carry noise of 2.7 % (31.5 dB), weights and
     * activations alike; through the fourteen products of the two layers that grows to some 15 %, a cosine of 0.988, also with checkpoints of
     * this model that compressed-tensors wrote itself. 0.98 is 20 %. Four bits start at 9 % (20.7 dB) and end at 39 %, a cosine of 0.92; here
     * 0.85 at least. A scale in the wrong direction or at the wrong place gives cosines near 0.
     */
    @ParameterizedTest
    @MethodSource("pairsOfTransformers")
    void transformers_computes_nearly_the_same_logits(Pair pair) throws IOException, InterruptedException {
        Path quantized = quantize(LLAMA, pair);
        String least = pair.recipe().name().equals("nvfp4") ? "0.85" : "0.98";
        Answer answer = python(script("transformers_logits.py"), LLAMA.toString(), quantized.toString(), least);
        needs(answer.code() != MISSING_LIBRARY, answer.text());
        print(pair, answer);
        assertEquals(0, answer.code(), answer.text());
    }

    /** Keeps every parameter with "scale" in its name in F32, those of FP8 too: a product of BF16 and F32 is then refused. */
    private static final String KEEPS_SCALES_IN_F32 = "HYV4ForCausalLM";

    /** Whether {@code octet verify} says what is wrong, where something is. */
    private static boolean isTold(Path model) {
        return model.getFileName().toString().startsWith(KEEPS_SCALES_IN_F32)
                || CommandLine.run("verify", model.toString(), "--for", "transformers")
                                .code()
                        == ExitCode.CHECK_FAILED;
    }

    /**
     * Every class of transformers that can be made tiny, with its head tied to the embedding and without, {@code fp8-dynamic} in its default layout.
     * A Linear that the configuration does not name and that has no scale gives NaN; one that a rename hides is among the missing keys. Noise of
     * E4M3 is 3 to 15 % of the logits here and up to 30 % where two logits of a classifier nearly cancel: 0.4 is what only a wrong scale reaches.
     * Where a class cannot load what is right for others, as Llama 4 its experts in one tensor, {@code octet verify} says so.
     */
    @Test
    void transformers_computes_nearly_the_same_logits_with_every_architecture()
            throws IOException, InterruptedException {
        Path originals = folder.resolve("originals");
        Path quantized = Files.createDirectories(folder.resolve("quantized"));
        Answer made = python(script("tiny_models.py"), "make", originals.toString());
        assertEquals(0, made.code(), made.text());
        List<String> kept = new ArrayList<>();
        List<Path> models;
        try (Stream<Path> folders = Files.list(originals)) {
            models = folders.sorted().toList();
        }
        for (Path model : models) {
            Path out = quantized.resolve(model.getFileName());
            CommandLine run = CommandLine.run("quantize", model.toString(), "-o", out.toString(), "--quiet");
            if (run.code() != ExitCode.OK) {
                assertTrue(
                        run.err().contains("there is no weight to quantise"), model.getFileName() + ": " + run.err());
                kept.add(model.getFileName().toString());
            }
        }
        Answer answer = python(script("tiny_models.py"), "compare", originals.toString(), quantized.toString());
        assertEquals(0, answer.code(), answer.text());
        System.out.println(answer.text());
        System.out.println("nothing to quantise: " + kept);
        ObjectMapper json = new ObjectMapper();
        List<String> wrong = new ArrayList<>();
        int compared = 0;
        for (String line : answer.text().lines().filter(l -> l.startsWith("{")).toList()) {
            JsonNode row = json.readTree(line);
            compared++;
            boolean right = row.path("finite").asBoolean(false)
                    && row.path("relative").asDouble(Double.NaN) <= MOST_NOISE
                    && row.path("keys").isEmpty();
            if (!right && !isTold(quantized.resolve(row.path("model").asText()))) {
                wrong.add(line);
            }
        }
        assertEquals(models.size() - kept.size(), compared, answer.text());
        assertEquals(List.of(), wrong);
    }

    /** Layout compressed-tensors, but for blocks, where the library takes the granularity from the shape of the scales. */
    private static Stream<Pair> pairsOfCompressedTensors() {
        return pairs().filter(p -> p.target().name().equals("compressed-tensors")
                && !p.recipe().name().equals("fp8-block"));
    }

    @ParameterizedTest
    @MethodSource("pairsOfCompressedTensors")
    void compressed_tensors_decompresses_to_the_values_that_octet_dequantises_to(Pair pair)
            throws IOException, InterruptedException {
        Path quantized = quantize(LLAMA, pair);
        Path plain = folder.resolve("plain");
        CommandLine run = CommandLine.run("dequantize", quantized.toString(), "-o", plain.toString());
        assertEquals(ExitCode.OK, run.code(), run.err());
        Answer answer = python(script("compressed_tensors_values.py"), quantized.toString(), plain.toString());
        needs(answer.code() != MISSING_LIBRARY, answer.text());
        print(pair, answer);
        assertEquals(0, answer.code(), answer.text());
    }

    /**
     * Both compute in F32 and add in another order, which sometimes moves an element across the border between two codes of E4M3: about a
     * thousandth of the logits, where the quantised attention itself changes a few hundredths.
     */
    @ParameterizedTest
    @CsvSource({
        "llama, --attention fp8-per-head",
        "llama, --attention fp8",
        "llama, --kv-cache fp8-per-head",
        "qwen3, --attention fp8-per-head",
        "mistral, --attention fp8-per-head",
        "gemma, --kv-cache fp8-per-head"
    })
    void compressed_tensors_quantises_attention_as_octet_expects_of_readers(String model, String options)
            throws IOException, InterruptedException {
        Path source = ROOT.resolve("testdata/models/tiny-hf").resolve(model);
        Path tokens = ROOT.resolve("testdata/golden/calibration/tokens.npz");
        Path statistics = folder.resolve("statistics");
        Path out = folder.resolve("quantised");
        octet("calibrate " + source + " -o " + statistics + " --data " + tokens);
        octet("quantize " + source + " -o " + out + " --recipe fp8-weight-only --statistics " + statistics + " "
                + options);
        Path file = folder.resolve("logits.npz");
        Answer answer =
                python(script("compressed_tensors_attention.py"), out.toString(), tokens.toString(), file.toString());
        needs(answer.code() != MISSING_LIBRARY, answer.text());
        System.out.println(model + " " + options + ": " + answer.text());
        assertEquals(0, answer.code(), answer.text());
        double error = difference(logits(out, tokens), file, tokens);
        System.out.println("logits differ from Octet's by " + error);
        assertTrue(error < 4e-3, "differ by " + error);
    }

    private static void octet(String line) {
        CommandLine run = CommandLine.run(line.split(" "));
        assertEquals(ExitCode.OK, run.code(), run.err());
    }

    private static float[] logits(Path model, Path tokens) throws IOException {
        try (Arena arena = Arena.ofShared();
                NpzFile given = NpzFile.open(tokens);
                ModelSource opened = ModelSource.open(model, ModelSource.Activations.AS_CONSUMERS);
                OnnxRuntimeSession session = opened.load(1)) {
            Map<String, Tensor> inputs = new LinkedHashMap<>();
            for (String name : List.of("input_ids", Batch.ATTENTION_MASK)) {
                inputs.put(name, given.read(name, arena));
            }
            try (OnnxRuntimeSession.Outputs outputs = session.run(new Batch(0, 6, inputs))) {
                return outputs.read("logits").toFloats();
            }
        }
    }

    /** Length of the difference over length of the logits, over tokens that are not padding. */
    private static double difference(float[] found, Path file, Path tokens) throws IOException {
        try (Arena arena = Arena.ofConfined();
                NpzFile computed = NpzFile.open(file);
                NpzFile given = NpzFile.open(tokens)) {
            float[] wanted = computed.read("logits", arena).toFloats();
            Tensor mask = given.read(Batch.ATTENTION_MASK, arena);
            assertEquals(wanted.length, found.length);
            int width = found.length / Math.toIntExact(mask.shape().elementCount());
            double error = 0;
            double all = 0;
            for (int i = 0; i < found.length; i++) {
                if (mask.bytes().get(Tensor.I64_LE, i / width * 8L) != 0) {
                    error += Math.pow((double) found[i] - wanted[i], 2);
                    all += Math.pow(wanted[i], 2);
                }
            }
            return Math.sqrt(error / all);
        }
    }
}
