package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What {@code --json} promises (docs/output.md), of every verb, through the real command line. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class JsonAnswersTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String BERT = TinyBert.MODEL.toString();
    private static final Path TINY = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf/llama");
    private static final Path ADAPTER = Path.of(System.getProperty("octet.testdata"), "golden/merge/lora");
    private static final String LLAMA =
            TESTDATA.resolve("checkpoints/llama-128-small").toString();
    private static final String GPT2 = TESTDATA.resolve("models/tiny-lm/gpt2").toString();
    private static final ObjectMapper JSON = new ObjectMapper();

    /** It fetches its model. */
    private static final String NEEDS_THE_NETWORK = "quickstart";

    @TempDir
    Path folder;

    private final Set<String> answered = new TreeSet<>();

    static Stream<String> verbs() {
        return Octet.COMMANDS.stream().map(Command::name);
    }

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private JsonNode answer(String... words) throws IOException {
        List<String> all = new ArrayList<>(List.of(words));
        all.add("--json");
        CommandLine run = CommandLine.run(TextStyle.terminal(80).with(Color.ALWAYS), all.toArray(String[]::new));
        assertEquals(ExitCode.OK, run.code(), run.err());
        JsonNode answer = JSON.readTree(run.out());
        assertEquals("schema", answer.fieldNames().next(), run.out());
        assertEquals("octet/" + words[0] + "/1", answer.get("schema").asText(), run.out());
        assertFalse(run.out().matches("(?s).*\"-?(NaN|Infinity)\".*"), run.out());
        answered.add(words[0]);
        return answer;
    }

    @Test
    void every_verb_answers_with_one_object_and_its_schema() throws IOException {
        String samples = TinyBert.samples(folder.resolve("samples.npz"), 8, 1).toString();
        Path config = Files.write(
                folder.resolve("train.yaml"),
                List.of(
                        "data: {train: samples.npz}",
                        "loss: {type: mse, output: logits, distillation: {teacher: " + BERT + "}}",
                        "batch_size: 2",
                        "steps: 2"));
        answer("inspect", BERT);
        answer("inspect", LLAMA);
        answer("inspect", TESTDATA.resolve("golden/gguf/decode.gguf").toString());
        answer("inspect", "--device");
        answer("calibrate", BERT, "-o", at("dry"), "--calibration", samples, "--dry-run");
        answer("calibrate", BERT, "-o", at("s"), "--calibration", samples);
        answer("quantize", BERT, "-o", at("fp8.onnx"), "--statistics", at("s"));
        answer("quantize", LLAMA, "-o", at("fp8"));
        answer("dequantize", at("fp8"), "-o", at("floats"));
        answer("convert", at("fp8"), "-o", at("modelopt"), "--target", "modelopt");
        answer("merge", TINY.toString(), ADAPTER.toString(), "-o", at("dry"), "--dry-run");
        answer("merge", TINY.toString(), ADAPTER.toString(), "-o", at("merged"));
        answer("verify", at("fp8"), "--for", "vllm");
        assertTrue(answer("verify", "--rules").get("rules").isArray());
        answer("diff", LLAMA, at("fp8"));
        JsonNode equal = answer("evaluate", BERT, BERT, "--data", samples);
        assertTrue(equal.get("comparison").get("outputs").get(0).get("sqnr_db").isNull(), "no noise: no finite number");
        JsonNode losses = answer("sensitivity", BERT, "--data", samples, "--formats", "fp8-weight-only");
        assertTrue(losses.get("perplexity").isNull(), "no head over tokens: no finite number");
        assertTrue(answer("plan", GPT2, "--hardware", "8xH100")
                        .get("cluster")
                        .get("ways")
                        .size()
                > 1);
        assertTrue(answer("plan", BERT, "--config", config.toString())
                .get("machine")
                .get("fits")
                .asBoolean());
        answer("train", BERT, "--config", config.toString(), "-o", at("run"), "--dry-run");
        answer("train", BERT, "--config", config.toString(), "-o", at("run"));
        answer("export", at("run"), "-o", at("out.onnx"), "--target", "onnx", "--no-proof");
        answer(
                "gradient",
                TESTDATA.resolve("models/op-grad/add_both.onnx").toString(),
                "--golden",
                TESTDATA.resolve("models/op-grad/add_both.safetensors").toString());
        JsonNode said = answer("generate", TINY.toString(), "--prompt-tokens", "5,6", "--max-tokens", "3");
        assertEquals(3, said.get("tokens").size());
        assertTrue(said.get("text").isNull(), "the folder has no tokenizer");
        answer("report", at("run"));
        Path texts = Files.write(
                folder.resolve("texts.yaml"),
                List.of(
                        "data: {train: tokens.bin, sequence: 16}",
                        "loss: {type: causal-lm}",
                        "batch_size: 2",
                        "steps: 8",
                        "precision: {mode: fp8}"));
        byte[] tokens = new byte[2 * 512];
        for (int i = 0; i < tokens.length; i += 2) {
            tokens[i] = (byte) (i * 7 % 101);
        }
        Files.write(folder.resolve("tokens.bin"), tokens);
        JsonNode healthy = answer("doctor", GPT2, "--config", texts.toString());
        assertTrue(healthy.get("healthy").asBoolean(), healthy.toPrettyString());
        Path deepSpeed = TESTDATA.resolve("configs/deepspeed/zero3-offload.json");
        JsonNode keys = answer("config", deepSpeed.toString()).get("keys");
        assertEquals("train_batch_size", keys.get(0).get("key").asText());
        assertEquals(2, keys.get(0).get("line").asInt());
        answer("completion", "bash");
        assertEquals(
                verbs().filter(v -> !v.equals(NEEDS_THE_NETWORK)).collect(Collectors.toCollection(TreeSet::new)),
                answered);
    }

    @ParameterizedTest
    @MethodSource("verbs")
    void an_error_is_an_object_too_and_three_lines_on_standard_error(String verb) throws IOException {
        CommandLine run = CommandLine.run(verb, "--json", "--no-such-option");
        JsonNode answer = JSON.readTree(run.out());
        assertEquals("octet/error/1", answer.get("schema").asText());
        JsonNode error = answer.get("error");
        assertEquals("unknown option --no-such-option", error.get("what").asText());
        assertEquals("octet " + verb, error.get("where").asText());
        assertFalse(error.get("fix").asText().isEmpty());
        assertEquals(run.code().number(), error.get("exit").asInt());
        assertEquals(3, run.err().lines().count(), run.err());
    }

    @Test
    void the_page_shows_an_error_as_it_is_printed() throws IOException {
        String page = Files.readString(TESTDATA.resolveSibling("docs/output.md"));
        String printed = CommandLine.run("inspect", "--json", "--jsno").out();
        assertTrue(page.contains("```json\n" + printed + "```\n"), printed);
    }

    @Test
    void what_is_not_finite_is_null_at_any_depth() throws IOException {
        JsonNode answer = JSON.readTree(Json.answer(
                "test",
                Map.of(
                        "a", Double.NaN,
                        "b", List.of(1.5, Float.NEGATIVE_INFINITY),
                        "c", Map.of("d", new double[] {Double.POSITIVE_INFINITY, 2}))));
        assertEquals(
                "{\"schema\":\"octet/test/1\",\"a\":null,\"b\":[1.5,null],\"c\":{\"d\":[null,2.0]}}",
                answer.toString());
    }
}
