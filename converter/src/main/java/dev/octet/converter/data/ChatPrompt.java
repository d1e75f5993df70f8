package dev.octet.converter.data;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A user's message as a model that was trained on conversations reads it: in the model's chat template, up to where the assistant is to write. The same as
 * transformers' {@code apply_chat_template(messages, add_generation_prompt=True)}.
 *
 * @param system message in front of it; empty for what the template has without one
 * @param template file of a template; empty for the one next to the tokenizer
 * @param date for templates that tell the model today's
 */
public record ChatPrompt(String user, Optional<String> system, Optional<Path> template, LocalDate date) {
    private static final String OPTION = "--chat-template FILE";

    /**
     * The text.
     *
     * @param tokenizerJson {@code tokenizer.json}; its folder has the special tokens, too
     * @throws InvalidOptionException when there is no template
     * @throws InvalidDataException when it is none, or refuses the messages, such as one of the system
     * @throws IOException when a file cannot be read
     */
    public String text(Path tokenizerJson) throws IOException {
        List<Map<String, @Nullable Object>> messages = new ArrayList<>();
        system.ifPresent(text -> messages.add(message("system", text)));
        messages.add(message("user", user));
        return ChatTemplate.open(tokenizerJson, template, Optional.of(date), OPTION)
                .render(new Conversation(messages, null, null, Map.of()), true, "the prompt")
                .text();
    }

    private static Map<String, @Nullable Object> message(String role, String content) {
        Map<String, @Nullable Object> message = new LinkedHashMap<>();
        message.put("role", role);
        message.put("content", content);
        return message;
    }

    /**
     * Its tokens; the template writes special ones itself.
     *
     * @param tokenizer read from {@code tokenizerJson}
     * @throws InvalidOptionException as for {@link #text}
     * @throws InvalidDataException as for {@link #text}
     * @throws IOException when a file cannot be read
     */
    public List<Long> tokens(Tokenizer tokenizer, Path tokenizerJson) throws IOException {
        return Arrays.stream(tokenizer.place(text(tokenizerJson), false).ids())
                .asLongStream()
                .boxed()
                .toList();
    }
}
