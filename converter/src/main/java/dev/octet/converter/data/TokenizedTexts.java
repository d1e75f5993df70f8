package dev.octet.converter.data;

import dev.octet.formats.file.Sha256;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * Texts as token sequences: JSON Lines of {@code {"text": ...}}, tokenised by a {@code tokenizer.json}, with the special tokens of its
 * template and without padding. Not thread-safe.
 */
public final class TokenizedTexts implements AutoCloseable {
    private final Path file;
    private final Path tokenizerJson;
    private final String digest;
    private final Optional<String> end;
    private final JsonLines lines;
    private final Tokenizer tokenizer;
    private @Nullable TokenizerVocabulary vocabulary;

    private TokenizedTexts(
            Path file, Path tokenizerJson, String digest, Optional<String> end, JsonLines lines, Tokenizer tokenizer) {
        this.file = file;
        this.tokenizerJson = tokenizerJson;
        this.digest = digest;
        this.end = end;
        this.lines = lines;
        this.tokenizer = tokenizer;
    }

    /**
     * Opens texts.
     *
     * @param file JSON Lines; opening checks every line
     * @param maxLength longer texts are cut to this many tokens, including special tokens; empty for whole texts
     * @param end the token that ends a text; empty to read it from the files next to the tokenizer
     * @throws dev.octet.formats.error.InvalidDataException when a line or the tokenizer is malformed
     * @throws dev.octet.formats.error.UnavailableException when the tokenizer's native library cannot be loaded
     * @throws IOException when a file cannot be read
     */
    public static TokenizedTexts open(Path file, Path tokenizerJson, OptionalInt maxLength, Optional<String> end)
            throws IOException {
        JsonLines lines = JsonLines.open(file);
        try {
            Tokenizer tokenizer = Tokenizer.unpadded(tokenizerJson, maxLength);
            String digest = Sha256.of(
                    "tokens of text", Sha256.of(file), Sha256.of(tokenizerJson), String.valueOf(maxLength.orElse(-1)));
            return new TokenizedTexts(file, tokenizerJson, digest, end, lines, tokenizer);
        } catch (IOException | RuntimeException e) {
            lines.close();
            throw e;
        }
    }

    /**
     * Tokens of one text, with the special tokens that the tokenizer adds.
     *
     * @throws dev.octet.formats.error.InvalidDataException when the tokenizer is malformed or cannot encode the text
     * @throws dev.octet.formats.error.UnavailableException when the tokenizer's native library cannot be loaded
     * @throws IOException when the file cannot be read
     */
    public static long[] tokensOf(String text, Path tokenizerJson) throws IOException {
        try (Tokenizer tokenizer = Tokenizer.unpadded(tokenizerJson, OptionalInt.empty())) {
            return tokenizer.encode(List.of(text)).getFirst().ids();
        }
    }

    /** The file's name. */
    public String name() {
        return String.valueOf(Objects.requireNonNullElse(file.getFileName(), file));
    }

    /** Number of texts. */
    public int count() {
        return lines.count();
    }

    /** SHA-256 over texts, tokenizer and length, lower-case hexadecimal. */
    public String digest() {
        return digest;
    }

    /** Tokens of texts {@code from} to {@code from + size - 1}. */
    public List<long[]> tokens(int from, int size) {
        Objects.checkFromIndexSize(from, size, count());
        List<String> texts = new ArrayList<>(size);
        for (int i = 0; i < size; i++) {
            texts.add(lines.text(from + i));
        }
        List<long[]> tokens = new ArrayList<>(size);
        for (TokenizedText text : tokenizer.encode(texts)) {
            tokens.add(text.ids());
        }
        return tokens;
    }

    /**
     * The labels of all texts, in their order.
     *
     * @param key under which a line has its label
     * @return empty when no line has one
     * @throws dev.octet.formats.error.InvalidDataException when a line has none, or one that is not made of numbers; the message has the
     *     line
     */
    public Optional<LineLabels> labels(String key) {
        return LineLabels.of(file, lines, key);
    }

    /**
     * The token that ends a text.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when the tokenizer has no such token, or no file names one
     * @throws IOException when a file cannot be read
     */
    public long endOfText() throws IOException {
        return EndOfText.of(tokenizerJson, vocabulary(), end);
    }

    /**
     * The largest token id of the tokenizer.
     *
     * @throws IOException when reading the tokenizer fails
     */
    public long largestToken() throws IOException {
        return vocabulary().largest();
    }

    private TokenizerVocabulary vocabulary() throws IOException {
        TokenizerVocabulary known = vocabulary;
        if (known == null) {
            known = TokenizerVocabulary.read(tokenizerJson);
            vocabulary = known;
        }
        return known;
    }

    @Override
    public void close() {
        tokenizer.close();
        lines.close();
    }
}
