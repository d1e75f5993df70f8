package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.gguf.GgufType;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code octet inspect FILE.gguf}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GgufInspectTest {
    private static final Path GOLDEN = Path.of(System.getProperty("octet.testdata"), "golden/gguf");

    @TempDir
    Path folder;

    private Path written(String model, String type) {
        Path file = folder.resolve("model.gguf");
        CommandLine run = CommandLine.run(
                "convert",
                GOLDEN.resolve("models").resolve(model).toString(),
                "-o",
                file.toString(),
                "--target",
                "gguf",
                "--type",
                type);
        assertEquals(ExitCode.OK, run.code(), run.err());
        return file;
    }

    private static JsonNode json(Path file) throws IOException {
        CommandLine run = CommandLine.run("inspect", "--json", file.toString());
        assertEquals(ExitCode.OK, run.code(), run.err());
        return new ObjectMapper().readTree(run.out());
    }

    @Test
    void the_sizes_are_those_of_the_folder_it_was_made_of() throws IOException {
        JsonNode config = new ObjectMapper()
                .readTree(GOLDEN.resolve("models/llama3/config.json").toFile());
        JsonNode facts = json(written("llama3", "q8_0"));
        assertEquals("llama", facts.path("architecture").asText());
        assertEquals("Q8_0", facts.path("file_type").asText());
        JsonNode d = facts.path("dimensions");
        assertEquals(config.path("num_hidden_layers"), d.path("layers"));
        assertEquals(config.path("hidden_size"), d.path("hidden"));
        assertEquals(config.path("intermediate_size"), d.path("intermediate"));
        assertEquals(config.path("num_attention_heads"), d.path("heads"));
        assertEquals(config.path("num_key_value_heads"), d.path("key_value_heads"));
        assertEquals(config.path("vocab_size"), d.path("vocabulary"));
        assertEquals(config.path("max_position_embeddings"), d.path("context"));
        JsonNode folder = json(GOLDEN.resolve("models/llama3"));
        assertEquals(folder.at("/tensors/parameters"), facts.at("/tensors/parameters"));
    }

    @Test
    void the_rotary_settings_and_the_tokenizer_are_those_of_the_folder() throws IOException {
        JsonNode facts = json(written("llama3", "q8_0"));
        JsonNode rotary = facts.path("rotary");
        assertEquals(16, rotary.path("dimensions").asInt());
        assertEquals(500_000, rotary.path("base").asDouble());
        assertEquals(8, rotary.path("factors").asInt(), "one for each pair of 16 elements");
        JsonNode tokenizer = facts.path("tokenizer");
        assertEquals("gpt2", tokenizer.path("model").asText());
        assertEquals("llama-bpe", tokenizer.path("pre").asText());
        assertEquals(400, tokenizer.path("tokens").asInt());
        assertTrue(tokenizer.path("chat_template").asBoolean());
        assertEquals("gpt2", facts.path("metadata").path("tokenizer.ggml.model").asText());
        assertEquals(
                "400 x string",
                facts.path("metadata").path("tokenizer.ggml.tokens").asText());
    }

    @Test
    void types_are_counted_with_the_bytes_of_their_blocks() throws IOException {
        JsonNode facts =
                json(GOLDEN.resolve("decode.gguf")); // one tensor of 1024 elements of each type, by the gguf package
        for (JsonNode share : facts.at("/tensors/by_dtype")) {
            GgufType type = GgufType.valueOf(share.path("dtype").asText());
            assertEquals(1, share.path("count").asInt(), type.name());
            assertEquals(1024, share.path("elements").asInt(), type.name());
            assertEquals(type.bytes(1024), share.path("bytes").asLong(), type.name());
        }
        assertEquals(facts.path("list").size(), facts.at("/tensors/by_dtype").size());
    }

    @Test
    void a_file_that_cannot_become_a_folder_is_shown_with_the_reason() throws IOException {
        JsonNode facts = json(GOLDEN.resolve("decode.gguf"));
        assertTrue(facts.path("not_converted").asText().contains("general.architecture"), facts.toString());
        CommandLine page =
                CommandLine.run("inspect", GOLDEN.resolve("decode.gguf").toString());
        assertTrue(page.out().contains("not possible: "), page.out());
        assertTrue(json(written("qwen2", "bf16")).path("not_converted").isNull());
    }

    @Test
    void the_page_shows_what_the_json_says() {
        Path file = written("llama3", "q8_0");
        CommandLine page = CommandLine.run("inspect", file.toString());
        assertEquals(ExitCode.OK, page.code(), page.err());
        for (String part : new String[] {
            "GGUF, version 3",
            "2 layers, hidden 64",
            "theta 500000",
            "gpt2, pre llama-bpe, 400 tokens",
            "Q8_0",
            "octet convert FILE"
        }) {
            assertTrue(page.out().contains(part), part + " in " + page.out());
        }
        assertFalse(page.out().contains("blk.0.attn_q.weight"), page.out());
        CommandLine all = CommandLine.run("inspect", "--tensors", file.toString());
        assertTrue(all.out().contains("blk.0.attn_q.weight"), all.out());
    }

    @ParameterizedTest
    @ValueSource(ints = {4, 12, 40, 200, 2000})
    void a_file_that_ends_early_is_refused_with_what_where_and_fix(int bytes) throws IOException {
        byte[] whole = Files.readAllBytes(written("qwen2", "q8_0"));
        Path file = Files.write(folder.resolve("part.gguf"), Arrays.copyOf(whole, bytes));
        CommandLine run = CommandLine.run("inspect", file.toString());
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        OctetTest.assertThreeLines(run);
    }

    @Test
    void control_characters_in_names_do_not_reach_the_terminal() throws IOException {
        byte[] whole = Files.readAllBytes(written("qwen2", "q8_0"));
        String text = new String(whole, StandardCharsets.ISO_8859_1);
        byte[] changed = text.replace("general.name", "general.\u001b[2J").getBytes(StandardCharsets.ISO_8859_1);
        Path file = Files.write(folder.resolve("hostile.gguf"), changed);
        CommandLine run = CommandLine.run("inspect", file.toString());
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertFalse(run.out().contains("\u001b[2J"), run.out());
    }
}
