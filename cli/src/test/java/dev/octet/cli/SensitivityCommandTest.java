package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.model.Model;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Losses of Linears against those of models that were really converted. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SensitivityCommandTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String BERT = TinyBert.MODEL.toString();
    private static final String LLAMA = TESTDATA.resolve("models/tiny-lm/llama").toString();
    private static final String TEXTS = TESTDATA.resolve("text/train.jsonl").toString();
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path folder;

    private String samples = "";

    @BeforeEach
    void write() throws IOException {
        samples = TinyBert.samples(folder.resolve("samples.npz"), 8, 1).toString();
    }

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private static JsonNode ok(String... words) throws IOException {
        List<String> all = new ArrayList<>(List.of(words));
        all.add("--json");
        CommandLine ran = CommandLine.run(all.toArray(String[]::new));
        assertEquals(ExitCode.OK, ran.code(), ran.err());
        return JSON.readTree(ran.out());
    }

    private static void refused(ExitCode code, String what, String fix, String... words) {
        CommandLine ran = CommandLine.run(words);
        assertEquals(code, ran.code(), ran.err() + ran.out());
        assertTrue(ran.err().contains(what), ran.err());
        assertTrue(ran.err().contains(fix), ran.err());
        assertEquals(3, ran.err().strip().lines().count(), ran.err());
    }

    private static JsonNode layer(JsonNode format, String weight) {
        for (JsonNode layer : format.get("layers")) {
            if (layer.get("weight").asText().equals(weight)) {
                return layer;
            }
        }
        throw new AssertionError(weight + " is not in " + format);
    }

    private double cosineLoss(String candidate) throws IOException {
        JsonNode compared = ok("evaluate", BERT, candidate, "--data", samples, "--no-layers");
        double worst = 1;
        for (JsonNode output : compared.get("comparison").get("outputs")) {
            worst = Math.min(worst, output.get("cosine_mean").asDouble());
        }
        return 1 - worst;
    }

    @ParameterizedTest
    @ValueSource(strings = {"fp8-weight-only", "fp8-per-channel", "fp8-per-tensor"})
    void losses_are_those_of_models_with_one_Linear_quantised_one_kept_and_all(String recipe) throws IOException {
        JsonNode format = ok("sensitivity", BERT, "--data", samples, "--formats", recipe)
                .get("formats")
                .get(0);
        assertEquals(14, format.get("layers").size());
        List<String> quantise = new ArrayList<>(List.of(
                "quantize", BERT, "-o", at("fp8.onnx"), "--recipe", recipe, "--rounding", "nearest", "--force"));
        if (!recipe.equals("fp8-weight-only")) {
            quantise.addAll(List.of("--calibration", samples));
        }
        ok(quantise.toArray(String[]::new));
        assertNear(cosineLoss(at("fp8.onnx")), format.get("all").get("cosine").asDouble());

        String worst = format.get("layers").get(0).get("weight").asText();
        List<String> others = new ArrayList<>(quantise);
        List<String> alone = new ArrayList<>(quantise);
        others.addAll(List.of("--keep", "^" + worst + "$"));
        alone.addAll(List.of("--keep", "^(?!" + worst + "$).*weight$"));
        ok(others.toArray(String[]::new));
        assertNear(
                cosineLoss(at("fp8.onnx")),
                layer(format, worst).get("kept").get("cosine").asDouble());
        JsonNode one = ok(alone.toArray(String[]::new));
        assertEquals(1, one.get("layers").get(0).get("converted").asInt(), one.toString());
        assertNear(
                cosineLoss(at("fp8.onnx")),
                layer(format, worst).get("alone").get("cosine").asDouble());
    }

    /** Two engines' sums differ in the last bits, by which an input or two falls to the other neighbour. */
    private static void assertNear(double expected, double found) {
        assertEquals(expected, found, 0.02 * expected + 1e-7);
    }

    @Test
    void of_a_checkpoint_the_loss_of_all_is_what_its_consumers_compute() throws IOException {
        String[] data = {"--data", TEXTS, "--samples", "4", "--max-length", "24"};
        JsonNode found = ok(with(data, "sensitivity", LLAMA, "--formats", "fp8-dynamic"));
        JsonNode all = found.get("formats").get(0).get("all");
        ok("quantize", LLAMA, "-o", at("fp8"), "--recipe", "fp8-dynamic");
        JsonNode compared =
                ok(with(data, "evaluate", LLAMA, at("fp8"), "--no-layers")).get("comparison");
        JsonNode perplexity = compared.get("perplexity");
        assertEquals(
                perplexity.get("reference").get("perplexity").asDouble(),
                found.get("perplexity").asDouble(),
                1e-6 * found.get("perplexity").asDouble());
        // scales are BF16 in the file and F32 in the measurement
        assertEquals(
                1 - compared.get("outputs").get(0).get("cosine_mean").asDouble(),
                all.get("cosine").asDouble(),
                0.15 * all.get("cosine").asDouble());
        assertEquals("kl", found.get("loss").asText());
        assertEquals("logits", found.get("output").asText());
        assertTrue(all.get("kl").asDouble() > 0);
    }

    @Test
    void a_model_whose_biases_are_narrower_than_it_computes_in_is_measured_too() throws IOException {
        String gpt2 = TESTDATA.resolve("models/tiny-lm/gpt2").toString();
        JsonNode found =
                ok("sensitivity", gpt2, "--data", TEXTS, "--samples", "4", "--max-length", "16", "--formats", "int8");
        assertEquals(8, found.get("formats").get(0).get("layers").size());
        assertTrue(found.get("formats").get(0).get("all").get("kl").asDouble() > 0);
        assertFalse(found.get("perplexity").isNull());
    }

    private static String[] with(String[] more, String... words) {
        List<String> all = new ArrayList<>(List.of(words));
        all.addAll(List.of(more));
        return all.toArray(String[]::new);
    }

    /** BERT with a Linear in which one of 16 inputs has weights 24 times as large as the others: a block of NVFP4 has zeros left for those. */
    private String withOutlier(String weight) throws IOException {
        try (ModelFile file = ModelFile.open(TinyBert.MODEL);
                Arena arena = Arena.ofConfined()) {
            GraphModel model = file.model().graph().orElseThrow();
            GraphEdit edit = GraphEdit.of(model.graph());
            Node product = edit.nodes().stream()
                    .filter(n -> n.is("MatMul") && n.name().contains(weight))
                    .findFirst()
                    .orElseThrow();
            Tensor old = Objects.requireNonNull(model.graph().initializers().get(product.input(1)))
                    .tensor()
                    .orElseThrow();
            Tensor changed = Tensor.allocate(arena, old.spec());
            MemorySegment.copy(old.bytes(), 0, changed.bytes(), 0, old.bytes().byteSize());
            float amax = 0;
            for (float v : old.toFloats()) {
                amax = Math.max(amax, Math.abs(v));
            }
            long outputs = old.shape().dim(1); // [in, out]
            for (long input = 0; input < old.shape().dim(0); input += 16) {
                for (long i = 0; i < outputs; i++) {
                    changed.bytes().set(Tensor.F32_LE, (input * outputs + i) * Float.BYTES, 24 * amax);
                }
            }
            edit.putInitializer(Initializer.of(changed));
            Path path = folder.resolve("outlier.onnx");
            ModelFile.save(Model.of(model.withGraph(edit.build())), path);
            return path.toString();
        }
    }

    @Test
    void a_weight_with_an_outlier_is_ranked_first_and_keeping_it_saves_most() throws IOException {
        String model = withOutlier("predictions/transform/dense");
        JsonNode format = ok("sensitivity", model, "--data", samples, "--formats", "nvfp4")
                .get("formats")
                .get(0);
        String worst = format.get("layers").get(0).get("weight").asText();
        assertTrue(worst.contains("transform.dense"), worst);
        double all = format.get("all").get("cosine").asDouble();
        double saved = all - layer(format, worst).get("kept").get("cosine").asDouble();
        assertTrue(saved > all / 2, saved + " of " + all);
        assertEquals(worst, format.get("exclusion").get("weights").get(0).asText());
        String node = format.get("exclusion").get("nodes_to_exclude").get(0).asText();
        Graph graph;
        try (ModelFile file = ModelFile.open(Path.of(model))) {
            graph = file.model().graph().orElseThrow().graph();
            assertTrue(
                    graph.nodes().stream().anyMatch(n -> n.name().equals(node) && n.is("MatMul")),
                    node + " is a product of the file");
        }
    }

    @Test
    void exclusions_are_what_the_configurations_of_the_kept_checkpoint_say() throws IOException {
        JsonNode format = ok(
                        "sensitivity",
                        LLAMA,
                        "--data",
                        TEXTS,
                        "--samples",
                        "4",
                        "--max-length",
                        "24",
                        "--formats",
                        "fp8-dynamic")
                .get("formats")
                .get(0);
        JsonNode exclusion = format.get("exclusion");
        List<String> quantise = new ArrayList<>(List.of("quantize", LLAMA, "--recipe", "fp8-dynamic"));
        exclusion.get("keep").forEach(k -> quantise.addAll(List.of("--keep", k.asText())));
        ok(with(new String[] {"-o", at("ct")}, quantise.toArray(String[]::new)));
        ok(with(new String[] {"-o", at("opt"), "--target", "modelopt"}, quantise.toArray(String[]::new)));
        JsonNode config = JSON.readTree(folder.resolve("ct/config.json").toFile());
        assertEquals(config.get("quantization_config").get("ignore"), exclusion.get("ignore"));
        JsonNode other =
                JSON.readTree(folder.resolve("opt/hf_quant_config.json").toFile());
        assertEquals(other.get("quantization").get("exclude_modules"), exclusion.get("exclude_modules"));
        assertTrue(exclusion.get("modules_to_not_convert").toString().contains("\"lm_head\""));
        assertTrue(exclusion.get("nodes_to_exclude").isEmpty());
    }

    @Test
    void the_same_data_give_the_same_answer() throws IOException {
        String[] words = {"sensitivity", BERT, "--data", samples, "--formats", "int8,int4,mxfp8", "--threads", "1"};
        JsonNode first = ok(words);
        JsonNode second = ok(words);
        assertEquals(first.get("formats"), second.get("formats"));
        assertEquals(first.get("curve"), second.get("curve"));
        String note = first.get("notes").toString();
        assertTrue(note.contains("14 of 14 Linears cannot have int4"), note);
        assertTrue(note.contains("32 inputs are not a multiple of 128"), note);
    }

    @Test
    void a_format_that_no_Linear_can_have_is_said_and_costs_nothing() throws IOException {
        JsonNode found = ok(
                "sensitivity",
                LLAMA,
                "--data",
                TEXTS,
                "--samples",
                "4",
                "--max-length",
                "16",
                "--formats",
                "fp8-block");
        assertEquals(14, found.get("formats").get(0).get("layers").size());
        JsonNode bert = ok("sensitivity", BERT, "--data", samples, "--formats", "fp8-block");
        assertEquals(0, bert.get("formats").get(0).get("all").get("cosine").asDouble(), 1e-12);
        assertFalse(
                bert.get("formats").get(0).get("layers").get(0).get("refusal").isNull());
        assertTrue(bert.get("notes").get(0).asText().startsWith("14 of 14 Linears cannot have fp8-block"));
    }

    @Test
    void bad_input_is_refused_with_what_to_do() throws IOException {
        refused(ExitCode.USAGE, "missing --data FILE", "give samples", "sensitivity", BERT);
        refused(
                ExitCode.USAGE,
                "unknown format 'fp8-dynamik'",
                "did you mean fp8-dynamic?",
                "sensitivity",
                BERT,
                "--data",
                samples,
                "--formats",
                "fp8-dynamik");
        refused(
                ExitCode.USAGE,
                "named twice",
                "once",
                "sensitivity",
                BERT,
                "--data",
                samples,
                "--formats",
                "int8,int8");
        refused(
                ExitCode.INPUT,
                "too little data: 3 samples",
                "give more samples",
                "sensitivity",
                BERT,
                "--data",
                samples,
                "--samples",
                "3",
                "--quiet");
        refused(
                ExitCode.INPUT,
                "has no Linear",
                "octet",
                "sensitivity",
                TESTDATA.resolve("models/op-grad/acos.onnx").toString(),
                "--data",
                acosData(),
                "--quiet");
        refused(ExitCode.INPUT, "input_ids", "", "sensitivity", BERT, "--data", acosData(), "--quiet");
        Files.writeString(folder.resolve("page.html"), "precious");
        refused(
                ExitCode.USAGE,
                "exists",
                "--force",
                "sensitivity",
                BERT,
                "--data",
                samples,
                "--report",
                at("page.html"));
    }

    /** Samples for a model whose only input is x. */
    private String acosData() throws IOException {
        Path path = folder.resolve("x.npz");
        try (ModelFile file = ModelFile.open(TESTDATA.resolve("models/op-grad/acos.onnx"));
                Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(path)) {
            String input = file.model()
                    .graph()
                    .orElseThrow()
                    .graph()
                    .requiredInputs()
                    .getFirst()
                    .name();
            writer.add(Tensor.ofFloats(arena, input, Shape.of(8, 3, 5), new float[120]));
            writer.commit();
        }
        return path.toString();
    }
}
