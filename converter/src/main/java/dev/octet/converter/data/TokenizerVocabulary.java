package dev.octet.converter.data;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import dev.octet.formats.error.InvalidDataException;
import java.io.CharConversionException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * The tokens of a {@code tokenizer.json} with their ids: the model's tokens (a map for BPE, WordPiece and WordLevel; pairs of piece and
 * score in the order of ids for Unigram) and the added tokens, including special ones.
 */
final class TokenizerVocabulary {
    private final Map<String, Long> ids = new HashMap<>();
    private long largest = -1;

    private TokenizerVocabulary() {}

    /**
     * Reads the tokens.
     *
     * @throws InvalidDataException when the file is not a tokenizer
     * @throws IOException when the file cannot be read
     */
    static TokenizerVocabulary read(Path tokenizerJson) throws IOException {
        TokenizerVocabulary vocabulary = new TokenizerVocabulary();
        try (JsonParser p = new JsonFactory().createParser(tokenizerJson.toFile())) {
            vocabulary.root(p);
        } catch (JsonProcessingException e) {
            throw noTokenizer(e.getOriginalMessage(), tokenizerJson, e);
        } catch (CharConversionException e) { // from Jackson, for bytes that look like UTF-32 but are not
            throw noTokenizer(e.getMessage(), tokenizerJson, e);
        }
        return vocabulary;
    }

    private static InvalidDataException noTokenizer(@Nullable String why, Path tokenizerJson, IOException cause) {
        return new InvalidDataException(
                "not a tokenizer: " + why,
                tokenizerJson.toString(),
                "give the tokenizer.json that belongs to the model",
                cause);
    }

    /** Id of a token; empty for an unknown token. */
    OptionalLong id(String token) {
        Long id = ids.get(token);
        return id == null ? OptionalLong.empty() : OptionalLong.of(id);
    }

    /** The largest id; -1 without tokens. */
    long largest() {
        return largest;
    }

    private void root(JsonParser p) throws IOException {
        if (p.nextToken() != JsonToken.START_OBJECT) {
            return;
        }
        while (p.nextToken() == JsonToken.FIELD_NAME) {
            String key = p.currentName();
            JsonToken value = p.nextToken();
            if (key.equals("added_tokens") && value == JsonToken.START_ARRAY) {
                while (p.nextToken() == JsonToken.START_OBJECT) {
                    added(p);
                }
            } else if (key.equals("model") && value == JsonToken.START_OBJECT) {
                model(p);
            } else {
                p.skipChildren();
            }
        }
    }

    private void added(JsonParser p) throws IOException {
        Long id = null;
        @Nullable String content = null;
        while (p.nextToken() == JsonToken.FIELD_NAME) {
            String key = p.currentName();
            JsonToken value = p.nextToken();
            if (key.equals("id") && value == JsonToken.VALUE_NUMBER_INT) {
                id = p.getLongValue();
            } else if (key.equals("content") && value == JsonToken.VALUE_STRING) {
                content = p.getText();
            } else {
                p.skipChildren();
            }
        }
        if (id != null && content != null) {
            put(content, id);
        }
    }

    private void model(JsonParser p) throws IOException {
        while (p.nextToken() == JsonToken.FIELD_NAME) {
            boolean tokens = p.currentName().equals("vocab");
            JsonToken value = p.nextToken();
            if (tokens && value == JsonToken.START_OBJECT) {
                while (p.nextToken() == JsonToken.FIELD_NAME) {
                    String token = p.currentName();
                    if (p.nextToken() == JsonToken.VALUE_NUMBER_INT) {
                        put(token, p.getLongValue());
                    } else {
                        p.skipChildren();
                    }
                }
            } else if (tokens && value == JsonToken.START_ARRAY) {
                for (long id = 0; p.nextToken() == JsonToken.START_ARRAY; id++) {
                    if (p.nextToken() == JsonToken.VALUE_STRING) {
                        put(p.getText(), id);
                    }
                    while (p.nextToken() != JsonToken.END_ARRAY) {
                        p.skipChildren();
                    }
                }
            } else {
                p.skipChildren();
            }
        }
    }

    private void put(String token, long id) {
        ids.put(token, id);
        largest = Math.max(largest, id);
    }
}
