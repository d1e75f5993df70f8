package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code octet generate} on a tiny model whose words are numbers to it: what follows means nothing, how it is told does. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GenerateCommandTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String LLAMA = TESTDATA.resolve("models/tiny-hf/llama").toString();
    private static final String WORDS = TESTDATA.resolve("tokenizer/words.json").toString();

    @TempDir
    private Path folder;

    private static JsonNode answer(String... words) throws IOException {
        List<String> all = new ArrayList<>(List.of("generate"));
        all.addAll(List.of(words));
        all.add("--json");
        CommandLine run = CommandLine.run(all.toArray(String[]::new));
        assertEquals(ExitCode.OK, run.code(), run.err());
        return new ObjectMapper().readTree(run.out());
    }

    @Test
    void tokens_are_told_where_there_is_no_tokenizer() {
        CommandLine run = CommandLine.run("generate", LLAMA, "--prompt-tokens", "63,90,94,75,18", "--max-tokens", "4");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertEquals("14,14,17,14\n", run.out()); // golden/generate/greedy.json
        assertTrue(run.err().contains("4 tokens behind 5 of the prompt, end: length"), run.err());
    }

    @Test
    void the_text_that_is_told_piece_by_piece_is_the_text_of_the_answer() throws IOException {
        String[] words = {
            "generate",
            LLAMA,
            "--prompt",
            "the cat",
            "--tokenizer",
            WORDS,
            "--temperature",
            "2",
            "--seed",
            "5",
            "--quiet"
        };
        CommandLine run = CommandLine.run(words);
        assertEquals(ExitCode.OK, run.code(), run.err());
        JsonNode told = answer(LLAMA, "--prompt", "the cat", "--tokenizer", WORDS, "--temperature", "2", "--seed", "5");
        assertEquals(told.path("text").asText() + "\n", run.out());
        assertTrue(told.path("text").asText().length() > 3, told.toString());
        assertEquals("", run.err());
    }

    @Test
    void a_chat_is_answered_behind_the_tokens_that_transformers_makes_of_it() throws IOException {
        String model = TESTDATA.resolve("models/tiny-lm/gpt2").toString();
        String template = TESTDATA.resolve("chat/templates/qwen25.jinja").toString();
        JsonNode expected = null;
        for (JsonNode row : new ObjectMapper()
                .readTree(TESTDATA.resolve("golden/chat/prompts.json").toFile())) {
            if (row.path("template").asText().equals("qwen25")
                    && row.path("system").isTextual()) {
                expected = row;
            }
        }
        JsonNode row = requireNonNull(expected);
        String[] words = {
            model,
            "--chat",
            "--prompt",
            row.path("user").asText(),
            "--system",
            row.path("system").asText(),
            "--chat-template",
            template,
            "--max-tokens",
            "3"
        };
        JsonNode told = answer(words);
        assertEquals(row.path("tokens"), told.path("prompt_tokens"));
        assertEquals(3, told.path("tokens").size());
    }

    @Test
    void generation_config_names_the_tokens_that_end_a_text() throws IOException {
        for (String file : List.of("config.json", "model.safetensors")) {
            Files.copy(Path.of(LLAMA, file), folder.resolve(file));
        }
        Files.writeString(folder.resolve("generation_config.json"), "{\"eos_token_id\": [17, 99]}");
        JsonNode told = answer(folder.toString(), "--prompt-tokens", "63,90,94,75,18");
        assertEquals("[14,14,17]", told.path("tokens").toString());
        assertEquals("end-of-text", told.path("end").asText());
    }

    @Test
    void a_quantised_folder_says_nearly_what_the_original_does() throws IOException {
        Path quantised = folder.resolve("fp8");
        CommandLine run = CommandLine.run(
                "quantize",
                LLAMA,
                "-o",
                quantised.toString(),
                "--recipe",
                "fp8-dynamic",
                "--keep",
                "lm_head",
                "--quiet");
        assertEquals(ExitCode.OK, run.code(), run.err());
        JsonNode told = answer(quantised.toString(), "--prompt-tokens", "63,90,94,75,18", "--max-tokens", "2");
        assertEquals("compressed-tensors", told.path("layout").asText());
        assertEquals("[14,14]", told.path("tokens").toString());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "|there is no prompt",
                "--prompt a --prompt-tokens 1|--prompt and --prompt-tokens are both given",
                "--prompt-tokens 1,x|--prompt-tokens needs whole numbers, got 'x'",
                "--prompt-tokens 1 --temperature -1|--temperature -1 is out of range",
                "--prompt-tokens 1 --top-p 1.5|--top-p 1.5 is out of range",
                "--prompt-tokens 1 --top-p 0|--top-p 0 is out of range",
                "--prompt-tokens 1 --top-k 0|--top-k 0 is out of range",
                "--prompt-tokens 1 --max-tokens 0|--max-tokens 0 is out of range",
                "--prompt a --system b|--system is for a chat",
                "--prompt a --chat-template README.md|--chat-template is for a chat",
                "--prompt-tokens 1 --chat|--chat needs a text, not tokens",
                "--prompt the --chat|the model's folder has no tokenizer.json",
                "--prompt the|the model's folder has no tokenizer.json"
            })
    void a_wrong_option_is_refused(String options, String told) {
        List<String> words = new ArrayList<>(List.of("generate", LLAMA));
        words.addAll(options == null ? List.of() : List.of(options.split(" ")));
        CommandLine run = CommandLine.run(words.toArray(String[]::new));
        assertEquals(ExitCode.USAGE, run.code(), run.err());
        assertTrue(run.err().contains(told), run.err());
    }
}
