package dev.octet.converter.data;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.jinja.JinjaException;
import dev.octet.converter.jinja.JinjaTemplate;
import dev.octet.converter.jinja.RenderedTemplate;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.JsonFault;
import dev.octet.formats.file.Sha256;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * A model's template of chats: {@code chat_template.jinja} next to the tokenizer, else {@code chat_template} of {@code
 * tokenizer_config.json}, one template or several by name ({@code default}, and {@code tool_use} for conversations with tools), as
 * transformers finds it. It is rendered with the special tokens of {@code tokenizer_config.json} ({@code bos_token}, {@code eos_token}...).
 */
final class ChatTemplate {
    private static final String FILE = "chat_template.jinja";
    private static final String CONFIG = "tokenizer_config.json";
    private static final String DEFAULT = "default";
    private static final String TOOL_USE = "tool_use";
    private static final List<String> SPECIAL_TOKENS =
            List.of("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token");

    private final Path from;
    private final Map<String, JinjaTemplate> templates;
    private final Map<String, Object> specialTokens;
    private final Optional<LocalDate> date;
    private final String digest;
    private final String option;

    private ChatTemplate(
            Path from,
            Map<String, JinjaTemplate> templates,
            Map<String, Object> specialTokens,
            Optional<LocalDate> date,
            String digest,
            String option) {
        this.from = from;
        this.templates = templates;
        this.specialTokens = specialTokens;
        this.date = date;
        this.digest = digest;
        this.option = option;
    }

    /**
     * Reads the template of a tokenizer.
     *
     * @param file the template; empty for the one next to the tokenizer
     * @param date today's; empty for none, and a template that asks for it fails
     * @param option that gives another template, for messages
     * @throws InvalidOptionException when there is none
     * @throws InvalidDataException when it is not a template, or {@code tokenizer_config.json} is malformed
     * @throws IOException when a file cannot be read
     */
    static ChatTemplate open(Path tokenizerJson, Optional<Path> file, Optional<LocalDate> date, String option)
            throws IOException {
        Path config = tokenizerJson.resolveSibling(CONFIG);
        JsonNode settings = config(config);
        Path own = tokenizerJson.resolveSibling(FILE);
        Path from = file.orElse(Files.isRegularFile(own) ? own : config);
        Map<String, String> sources = new TreeMap<>();
        if (!from.equals(config)) {
            sources.put(DEFAULT, text(from));
        } else {
            JsonNode written = settings.path("chat_template");
            if (written.isTextual()) {
                sources.put(DEFAULT, written.asText());
            }
            for (JsonNode named : written) {
                sources.put(named.path("name").asText(), named.path("template").asText());
            }
        }
        if (!sources.containsKey(DEFAULT)) {
            throw new InvalidOptionException(
                    "messages need the model's chat template, and there is none",
                    own + ", and chat_template of " + config,
                    "add " + option + ", such as the chat_template.jinja of the model's instruction-tuned sister");
        }
        Map<String, JinjaTemplate> templates = new TreeMap<>();
        for (Map.Entry<String, String> source : sources.entrySet()) {
            templates.put(source.getKey(), parsed(source.getValue(), from, option));
        }
        Map<String, Object> special = new LinkedHashMap<>();
        for (String name : SPECIAL_TOKENS) {
            JsonNode token = settings.path(name);
            JsonNode text = token.isObject() ? token.path("content") : token;
            if (text.isTextual()) {
                special.put(name, text.asText());
            }
        }
        String digest = Sha256.of("chat template", sources.toString(), special.toString(), date.toString());
        return new ChatTemplate(from, templates, special, date, digest, option);
    }

    private static String text(Path file) throws IOException {
        if (!Files.isRegularFile(file)) {
            throw new NoSuchFileException(file.toString());
        }
        return new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
    }

    private static JinjaTemplate parsed(String source, Path from, String option) {
        try {
            return JinjaTemplate.of(source);
        } catch (JinjaException e) {
            throw new InvalidDataException(
                    "not a chat template: " + e.getMessage(),
                    from.toString(),
                    "correct it, or give another by " + option,
                    e);
        }
    }

    private static JsonNode config(Path file) throws IOException {
        ObjectMapper json = new ObjectMapper();
        if (!Files.isRegularFile(file)) {
            return json.createObjectNode();
        }
        byte[] bytes = Files.readAllBytes(file);
        try {
            return json.readTree(bytes);
        } catch (JsonProcessingException e) {
            JsonFault fault = JsonFault.of(e, bytes);
            throw new InvalidDataException(
                    "not JSON: " + fault.what(), fault.in(file.toString()), "restore the file, or remove it", e);
        }
    }

    /** SHA-256 over all that decides what is rendered. */
    String digest() {
        return digest;
    }

    /** Whether the template for such a conversation marks what the assistant writes. */
    boolean marksGeneration(Conversation conversation) {
        return template(conversation).marksGeneration();
    }

    private JinjaTemplate template(Conversation conversation) {
        JinjaTemplate toolUse = templates.get(TOOL_USE);
        return conversation.tools() != null && toolUse != null
                ? toolUse
                : Objects.requireNonNull(templates.get(DEFAULT));
    }

    /**
     * Renders a conversation.
     *
     * @param generationPrompt whether the text ends where the assistant is to write
     * @param where of the conversation, for messages
     * @throws InvalidDataException when the template refuses the conversation, or fails
     */
    RenderedTemplate render(Conversation conversation, boolean generationPrompt, String where) {
        Map<String, @Nullable Object> variables = new LinkedHashMap<>(specialTokens);
        variables.put("messages", conversation.messages());
        variables.put("tools", conversation.tools());
        variables.put("documents", conversation.documents());
        variables.put("add_generation_prompt", generationPrompt);
        variables.putAll(conversation.variables());
        try {
            return template(conversation).render(variables, date.map(LocalDate::atStartOfDay));
        } catch (JinjaException e) {
            if (e.isRaisedByTemplate()) {
                throw new InvalidDataException(
                        "the chat template refuses the messages: " + e.getMessage(),
                        where + "; template " + from,
                        "correct the conversation, or give another template by " + option,
                        e);
            }
            boolean asksDate = date.isEmpty() && String.valueOf(e.getMessage()).contains("today's date");
            throw new InvalidDataException(
                    asksDate
                            ? "the chat template asks for today's date, and tomorrow it would render another text"
                            : "the chat template fails: " + e.getMessage(),
                    where + "; template " + from,
                    asksDate
                            ? "add data: {date: 2026-01-31}, the day that all texts are to have"
                            : "correct the conversation or the template",
                    e);
        }
    }
}
