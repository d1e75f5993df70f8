package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What {@code diff} and {@code evaluate} answer about a model and what was made of it. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ComparedModelsTest {
    private static final String MODEL = TinyBert.MODEL.toString();
    private static final String EMBEDDINGS = Path.of(System.getProperty("octet.testdata"))
            .resolve("models/tiny-hf/bert-bare")
            .toString();

    @TempDir
    static Path folder;

    private static String fp8 = "";
    private static String samples = "";

    @BeforeAll
    static void quantise() throws IOException {
        samples = TinyBert.samples(folder.resolve("samples.npz"), 12, 3).toString();
        fp8 = folder.resolve("fp8.onnx").toString();
        CommandLine run = CommandLine.run("quantize", MODEL, "-o", fp8, "--calibration", samples, "--quiet");
        assertEquals(ExitCode.OK, run.code(), run.err());
    }

    private static JsonNode json(String... words) throws IOException {
        CommandLine run = CommandLine.run(
                Stream.concat(Stream.of(words), Stream.of("--json", "--quiet")).toArray(String[]::new));
        assertEquals("", run.err());
        return new ObjectMapper().readTree(run.out());
    }

    @Test
    void a_pair_whose_names_differ_stays_a_pair_when_only_one_of_them_matches() throws IOException {
        // the export calls it onnx::MatMul_393, the FP8 model m.bert.encoder.layer.1.output.dense.weight
        String only = "layer.1.output.dense.weight";
        JsonNode diff = json("diff", MODEL, fp8, "--only", only).get("diff");
        assertEquals(1, diff.get("tensors").size(), diff.toString());
        assertTrue(diff.at("/tensors/0/a").asText().startsWith("onnx::MatMul"), diff.toString());
        assertEquals(0, diff.get("only_b").size());
        JsonNode byOther = json(
                        "diff", MODEL, fp8, "--only", diff.at("/tensors/0/a").asText())
                .get("diff");
        assertEquals(diff.get("tensors"), byOther.get("tensors"));
        CommandLine gated =
                CommandLine.run("diff", MODEL, fp8, "--only", only, "--gate", "sqnr=60", "--gate", "matched=1");
        assertEquals(ExitCode.CHECK_FAILED, gated.code(), gated.out());
    }

    @Test
    void a_name_that_one_model_alone_has_is_said_to_be_there_alone() {
        CommandLine run = CommandLine.run("diff", fp8, EMBEDDINGS, "--only", "cls.predictions.bias", "--quiet");
        assertEquals(ExitCode.INPUT, run.code(), run.out());
        assertTrue(run.err().contains("'cls.predictions.bias' matches"), run.err());
    }

    @Test
    void gptq_of_octet_is_one_line_and_no_list_of_suspicions() throws IOException {
        CommandLine run = CommandLine.run("diff", MODEL, fp8, "--quiet");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertEquals(1, run.out().lines().filter(l -> l.contains("GPTQ")).count(), run.out());
        assertFalse(run.out().contains("rounding and other findings"), run.out());
        JsonNode tensor = json("diff", MODEL, fp8).at("/diff/tensors/0");
        assertEquals("COMPENSATED", tensor.at("/rounding/verdict").asText());
    }

    @Test
    void logits_have_no_sentence_embedding_and_the_gate_on_cosine_is_that_of_the_output() throws IOException {
        JsonNode answer = json("evaluate", MODEL, fp8, "--data", samples, "--no-layers", "--gate", "cosine=0.5");
        assertTrue(answer.at("/comparison/embedding").isNull(), answer.toString());
        assertEquals(answer.at("/comparison/outputs/0/cosine_mean"), answer.at("/gates/0/value"));
        assertEquals("output logits", answer.at("/gates/0/of").asText());
        CommandLine run = CommandLine.run(
                "evaluate", MODEL, fp8, "--data", samples, "--no-layers", "--quiet", "--gate", "embedding-cosine=0.5");
        assertEquals(ExitCode.CHECK_FAILED, run.code());
        assertTrue(run.out().contains("the models have no sentence embeddings"), run.out());
    }

    /** Samples with all three inputs of a BERT. */
    private static String segmented(Path file) throws IOException {
        int count = 6;
        int tokens = 9;
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(file)) {
            Shape shape = Shape.of(count, tokens);
            long[] ids =
                    new SplittableRandom(7).longs((long) count * tokens, 1, 36).toArray();
            long[] mask = new long[count * tokens];
            Arrays.fill(mask, 1);
            writer.add(Tensor.ofLongs(arena, "input_ids", shape, ids));
            writer.add(Tensor.ofLongs(arena, "attention_mask", shape, mask));
            writer.add(Tensor.ofLongs(arena, "token_type_ids", shape, new long[count * tokens]));
            writer.commit();
        }
        return file.toString();
    }

    @Test
    void sentence_embeddings_have_gates_of_their_own() throws IOException {
        String weights = folder.resolve("weights").toString();
        String texts = segmented(folder.resolve("texts.npz"));
        CommandLine made =
                CommandLine.run("quantize", EMBEDDINGS, "-o", weights, "--recipe", "fp8-weight-only", "--quiet");
        assertEquals(ExitCode.OK, made.code(), made.err());
        JsonNode answer = json(
                "evaluate",
                EMBEDDINGS,
                weights,
                "--data",
                texts,
                "--no-layers",
                "--gate",
                "cosine=0.1",
                "--gate",
                "embedding-cosine=0.1");
        assertEquals(answer.at("/comparison/outputs/0/cosine_mean"), answer.at("/gates/0/value"));
        assertEquals(answer.at("/comparison/embedding/cosine_mean"), answer.at("/gates/1/value"));
        assertTrue(answer.at("/gates/1/of").asText().startsWith("sentence embeddings of "), answer.toString());
    }

    @Test
    void equal_models_are_exact_and_their_layers_the_same() {
        CommandLine run = CommandLine.run("evaluate", MODEL, MODEL, "--data", samples, "--quiet", "--gate", "sqnr=60");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("exact"), run.out());
        assertTrue(run.out().contains("all 14 layers are the same"), run.out());
        for (String word : List.of("Infinity", "NaN", "null")) {
            assertFalse(run.out().contains(word), run.out());
        }
    }
}
