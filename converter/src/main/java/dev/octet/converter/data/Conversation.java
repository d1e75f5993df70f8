package dev.octet.converter.data;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.JsonFault;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A conversation, as templates of chats take it.
 *
 * @param messages each with {@code role} and, mostly, {@code content}
 * @param tools descriptions of functions; null for none
 * @param documents texts that an answer is to use; null for none
 * @param variables more that the row gives to the template
 */
record Conversation(
        List<Map<String, @Nullable Object>> messages,
        @Nullable Object tools,
        @Nullable Object documents,
        Map<String, @Nullable Object> variables) {
    static final String ASSISTANT = "assistant";

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String EXAMPLE = "{\"role\": \"user\", \"content\": \"Hi\"}";

    /** Roles as ShareGPT names them. */
    private static final Map<String, String> SHARE_GPT = Map.of(
            "human", "user",
            "gpt", ASSISTANT,
            "chatgpt", ASSISTANT,
            "bot", ASSISTANT,
            "model", ASSISTANT,
            "observation", "tool",
            "function_response", "tool");

    /**
     * The conversation of a row.
     *
     * @param messages a column with a list of messages
     * @throws InvalidDataException when they are not
     */
    static Conversation of(Row row, List<Map<String, @Nullable Object>> messages) {
        Map<String, @Nullable Object> variables = new LinkedHashMap<>();
        if (parsed(row, "chat_template_kwargs") instanceof Map<?, ?> more) {
            more.forEach((key, value) -> variables.put(String.valueOf(key), value));
        }
        return new Conversation(messages, parsed(row, "tools"), parsed(row, "documents"), variables);
    }

    /** A column's value; data sets often write it as JSON in a string. */
    private static @Nullable Object parsed(Row row, String column) {
        Object value = row.get(column);
        if (!(value instanceof String text)) {
            return value instanceof List<?> l && l.isEmpty() ? null : value;
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        try {
            Object parsed = text.isBlank() ? null : JSON.readValue(bytes, Object.class);
            return parsed instanceof List<?> l && l.isEmpty() ? null : parsed;
        } catch (JsonProcessingException e) {
            throw notJson(column, JsonFault.of(e, bytes).what(), row, e);
        } catch (IOException e) { // of bytes in memory: what looks like UTF-32 but is not
            throw notJson(column, e.getMessage(), row, e);
        }
    }

    private static InvalidDataException notJson(String column, @Nullable String why, Row row, IOException cause) {
        return new InvalidDataException(
                "\"" + column + "\" is text, but not JSON: " + why,
                row.where(),
                "give a list, or its JSON in a string",
                cause);
    }

    /**
     * The messages of a column.
     *
     * @throws InvalidDataException when it is not a list of messages, or an empty one
     */
    static List<Map<String, @Nullable Object>> messages(Row row, String column) {
        Object value = row.get(column);
        if (!(value instanceof List<?> list) || list.isEmpty()) {
            throw new InvalidDataException(
                    "\"" + column + "\" is " + (value instanceof List ? "an empty list" : "not a list of messages"),
                    row.where(),
                    "give messages such as [" + EXAMPLE + "]");
        }
        List<Map<String, @Nullable Object>> messages = new ArrayList<>(list.size());
        for (Object element : list) {
            messages.add(message(element, row, column, messages.size() + 1));
        }
        return messages;
    }

    private static Map<String, @Nullable Object> message(@Nullable Object element, Row row, String column, int number) {
        Map<String, @Nullable Object> message = new LinkedHashMap<>();
        if (element instanceof Map<?, ?> map) {
            // a column of Parquet has every field in every message: those without a value are not there
            map.forEach((key, value) -> {
                if (value != null || "content".equals(key)) {
                    message.put(String.valueOf(key), value);
                }
            });
        }
        if (!message.containsKey("role")
                && message.get("from") instanceof String from
                && message.containsKey("value")) {
            Map<String, @Nullable Object> renamed = new LinkedHashMap<>();
            renamed.put("role", SHARE_GPT.getOrDefault(from, from));
            renamed.put("content", message.get("value"));
            return renamed;
        }
        Object content = message.get("content");
        boolean fits = content == null || content instanceof String || content instanceof List;
        if (!(message.get("role") instanceof String) || !fits) {
            throw new InvalidDataException(
                    "message " + number + " of \"" + column + "\" has no "
                            + (fits ? "\"role\"" : "text or list of parts as \"content\""),
                    row.where(),
                    "give messages such as " + EXAMPLE);
        }
        return message;
    }

    /** The first {@code count} messages. */
    Conversation first(int count) {
        return new Conversation(messages.subList(0, count), tools, documents, variables);
    }

    /** Whether a message is the assistant's. */
    boolean isAssistant(int message) {
        return Objects.equals(messages.get(message).get("role"), ASSISTANT);
    }
}
