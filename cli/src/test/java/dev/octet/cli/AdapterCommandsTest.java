package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Verbs that take the folder of an adapter, and those that do not. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AdapterCommandsTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path folder;

    private static String adapter(String name) {
        return TESTDATA.resolve("adapters").resolve(name).toString();
    }

    private static String base(String name) {
        return TESTDATA.resolve("models/tiny-hf").resolve(name).toString();
    }

    @Test
    void inspect_shows_method_base_rank_targets_and_sizes() throws IOException {
        CommandLine run = CommandLine.run("inspect", adapter("llama-patterns"));
        assertEquals(ExitCode.OK, run.code());
        for (String expected : List.of(
                "lora (patterns)",
                "models/tiny-hf/llama",
                "rank        3, alpha 4",
                "(6)",
                "down_proj      2  32 x 64     1        4")) {
            assertTrue(run.out().contains(expected), run.out());
        }
        assertTrue(run.out().lines().allMatch(l -> l.length() <= 80), run.out());
    }

    @Test
    void inspect_as_json_has_every_module_with_its_scaling() throws IOException {
        JsonNode answer = JSON.readTree(
                CommandLine.run("inspect", "--json", adapter("llama-rslora")).out());
        assertEquals("lora", answer.get("method").asText());
        assertEquals(4, answer.get("modules").size());
        assertEquals(
                6 / Math.sqrt(2), answer.get("modules").get(0).get("scaling").asDouble(), 1e-12);
        assertEquals("[32,32]", answer.get("modules").get(0).get("weight").toString());
        assertEquals(448, answer.get("parameters").asLong());
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama-ia3", "llama-ln", "llama-prompt", "llama-prefix", "gpt2-biases", "llama-tokens"})
    void inspect_shows_adapters_of_every_method(String name) throws IOException {
        CommandLine run = CommandLine.run("inspect", "--tensors", adapter(name));
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("parameters"), run.out());
    }

    @Test
    void verify_finds_what_vllm_refuses_and_nothing_for_peft() throws IOException {
        String dora = adapter("llama-dora");
        CommandLine vllm = CommandLine.run("verify", dora, "--for", "vllm", "--base", base("llama"));
        assertEquals(ExitCode.CHECK_FAILED, vllm.code());
        assertTrue(vllm.out().contains("adapter-dora"), vllm.out());
        CommandLine peft = CommandLine.run("verify", dora, "--for", "peft", "--base", base("llama"));
        assertEquals(ExitCode.OK, peft.code(), peft.out());
        CommandLine wrong = CommandLine.run("verify", dora, "--for", "peft", "--base", base("gpt2"));
        assertEquals(ExitCode.CHECK_FAILED, wrong.code());
        assertTrue(wrong.out().contains("adapter-base x4"), wrong.out());
    }

    @Test
    void verify_takes_a_base_for_adapters_only() throws IOException {
        CommandLine model = CommandLine.run("verify", base("llama"), "--base", base("gpt2"));
        assertEquals(ExitCode.USAGE, model.code());
        CommandLine both =
                CommandLine.run("verify", adapter("llama-lora"), "--base", base("llama"), "--against", base("llama"));
        assertEquals(ExitCode.USAGE, both.code());
    }

    @Test
    void diff_compares_what_adapters_change() throws IOException {
        String lora = adapter("llama-lora");
        CommandLine same = CommandLine.run("diff", lora, lora);
        assertEquals(ExitCode.OK, same.code());
        assertTrue(same.out().contains("The adapters are identical."), same.out());
        CommandLine other = CommandLine.run("diff", lora, adapter("llama-rslora"), "--gate", "sqnr=30");
        assertEquals(ExitCode.CHECK_FAILED, other.code());
        assertTrue(other.out().contains("use_rslora"), other.out());
        JsonNode answer = JSON.readTree(
                CommandLine.run("diff", lora, adapter("llama-rslora"), "--json").out());
        assertFalse(answer.get("same_change").asBoolean());
        assertEquals(4, answer.get("diff").get("parts").size());
        assertEquals(
                ExitCode.USAGE,
                CommandLine.run(
                                "diff",
                                lora,
                                lora,
                                "--report",
                                folder.resolve("x.html").toString())
                        .code());
    }

    @Test
    void diff_of_an_adapter_and_a_model_says_which_is_which() throws IOException {
        CommandLine run = CommandLine.run("diff", adapter("llama-lora"), base("llama"));
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains("the folder holds an adapter, not a model"), run.err());
    }

    @ParameterizedTest
    @ValueSource(strings = {"quantize", "dequantize", "convert", "calibrate"})
    void verbs_of_models_refuse_an_adapter_by_its_name(String verb) throws IOException {
        Path out = folder.resolve("out");
        CommandLine run = verb.equals("convert")
                ? CommandLine.run(verb, adapter("llama-lora"), "-o", out.toString(), "--target", "fp8")
                : verb.equals("calibrate")
                        ? CommandLine.run(verb, adapter("llama-lora"), "-o", out.toString(), "--data", base("llama"))
                        : CommandLine.run(verb, adapter("llama-lora"), "-o", out.toString());
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        assertTrue(run.err().contains("the folder holds an adapter, not a model"), run.err());
        assertTrue(run.err().contains("octet merge"), run.err());
        assertFalse(Files.exists(out));
    }

    @Test
    void a_pickle_and_a_broken_configuration_are_refused_by_every_verb_of_adapters() throws IOException {
        Files.writeString(folder.resolve("adapter_config.json"), "{\"peft_type\": \"LORA\"}");
        Files.writeString(folder.resolve("adapter_model.bin"), "PK");
        for (String verb : List.of("inspect", "verify")) {
            CommandLine run = CommandLine.run(verb, folder.toString());
            assertEquals(ExitCode.INPUT, run.code());
            assertTrue(run.err().contains("Octet runs no pickled code"), run.err());
        }
        Files.writeString(folder.resolve("adapter_config.json"), "{\"peft_type\": \"LORA\", \"r\": \"8\"}");
        CommandLine run = CommandLine.run("inspect", folder.toString());
        assertTrue(run.err().contains("r is the text \"8\", not a whole number"), run.err());
    }
}
