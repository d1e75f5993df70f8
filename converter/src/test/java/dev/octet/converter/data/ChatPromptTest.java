package dev.octet.converter.data;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.Optional;
import java.util.OptionalInt;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ChatPromptTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path TOKENIZER = TESTDATA.resolve("models/tiny-lm/gpt2/tokenizer.json");
    private static final LocalDate TODAY = LocalDate.of(2026, 1, 31);

    private static ChatPrompt prompt(JsonNode row) {
        Path template =
                TESTDATA.resolve("chat/templates/" + row.path("template").asText() + ".jinja");
        Optional<String> system = Optional.ofNullable(row.path("system").textValue());
        return new ChatPrompt(row.path("user").asText(), system, Optional.of(template), TODAY);
    }

    @Test
    void texts_and_tokens_are_those_of_transformers_or_it_refuses_too() throws IOException {
        int compared = 0;
        int refused = 0;
        try (Tokenizer tokenizer = Tokenizer.unpadded(TOKENIZER, OptionalInt.empty())) {
            for (JsonNode row : new ObjectMapper()
                    .readTree(TESTDATA.resolve("golden/chat/prompts.json").toFile())) {
                ChatPrompt prompt = prompt(row);
                if (row.path("text").isNull()) {
                    assertThrows(InvalidDataException.class, () -> prompt.text(TOKENIZER), row.toString());
                    refused++;
                    continue;
                }
                assertEquals(
                        row.path("text").asText(),
                        prompt.text(TOKENIZER),
                        row.path("template").asText());
                assertEquals(
                        row.path("tokens").toString(),
                        prompt.tokens(tokenizer, TOKENIZER).toString().replace(" ", ""));
                compared++;
            }
        }
        assertEquals(24, compared + refused);
        assertTrue(compared > 20 && refused > 0, compared + " and " + refused);
    }

    @Test
    void without_a_template_the_option_that_gives_one_is_named() {
        ChatPrompt prompt = new ChatPrompt("Hi", Optional.empty(), Optional.empty(), TODAY);
        InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> prompt.text(TOKENIZER));
        assertTrue(String.valueOf(e.getMessage()).contains("add --chat-template FILE"), e.getMessage());
    }
}
