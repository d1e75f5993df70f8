package dev.octet.converter.data;

import ai.djl.engine.EngineException;
import ai.djl.huggingface.tokenizers.Encoding;
import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnavailableException;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/** A {@code tokenizer.json} of Hugging Face's tokenizers library, run by that library. */
public final class Tokenizer implements AutoCloseable {
    private final HuggingFaceTokenizer tokenizer;
    private final Optional<TokenizerPadding> padding;
    private final Path path;

    private Tokenizer(HuggingFaceTokenizer tokenizer, Optional<TokenizerPadding> padding, Path path) {
        this.tokenizer = tokenizer;
        this.padding = padding;
        this.path = path;
    }

    /**
     * Opens a tokenizer that pads a batch to its longest text.
     *
     * @param maxLength longer texts are cut to this many tokens
     * @throws InvalidDataException when the file is not a tokenizer
     * @throws UnavailableException when the native library cannot be loaded
     * @throws IOException when the file cannot be read
     */
    static Tokenizer open(Path path, int maxLength) throws IOException {
        return open(path, true, OptionalInt.of(maxLength));
    }

    /**
     * Opens a tokenizer that never pads, regardless of the file; throws as {@link #open(Path, int)}.
     *
     * @param maxLength longer texts are cut to this many tokens; empty for no limit
     */
    public static Tokenizer unpadded(Path path, OptionalInt maxLength) throws IOException {
        return open(path, false, maxLength);
    }

    private static Tokenizer open(Path path, boolean padded, OptionalInt maxLength) throws IOException {
        if (!Files.isRegularFile(path)) {
            throw new NoSuchFileException(path.toString());
        }
        byte[] json = Files.readAllBytes(path);
        try {
            TokenizerLibrary.prepare();
            TokenizerTrial.pass(json, path);
            HuggingFaceTokenizer tokenizer =
                    HuggingFaceTokenizer.newInstance(new ByteArrayInputStream(json), options(maxLength));
            Optional<TokenizerPadding> padding = padded ? Optional.of(TokenizerPadding.of(json)) : Optional.empty();
            return new Tokenizer(tokenizer, padding, path);
        } catch (OctetException e) {
            throw e;
        } catch (LinkageError | EngineException e) {
            throw new UnavailableException(
                    "the native library of the tokenizer cannot be loaded: " + e.getMessage(),
                    "ai.djl.huggingface:tokenizers on " + System.getProperty("os.name") + " "
                            + System.getProperty("os.arch"),
                    "give data as .npz with the token ids, or use a platform the library has a build for",
                    e);
        } catch (RuntimeException e) { // from the native code, for a file it cannot parse
            throw new InvalidDataException(
                    "not a tokenizer: " + e.getMessage(),
                    path.toString(),
                    "give the tokenizer.json that belongs to the model",
                    e);
        }
    }

    /**
     * The library's options: no padding, and no overlap of truncated parts, because the file's overlap may exceed the length.
     *
     * @param maxLength longer texts are cut to this many tokens; empty for no limit
     */
    static Map<String, String> options(OptionalInt maxLength) {
        String length = String.valueOf(maxLength.orElse(Integer.MAX_VALUE));
        return Map.of(
                "padding",
                "false",
                "truncation",
                String.valueOf(maxLength.isPresent()),
                "maxLength",
                length,
                "modelMaxLength",
                length,
                "stride",
                "0");
    }

    /**
     * Tokens of each text, all of one length if this tokenizer pads.
     *
     * <p>Encodes each text by a separate call, on several threads: the library's batch call ends the process if a text cannot be encoded.
     *
     * @throws InvalidDataException when a text cannot be encoded
     */
    List<TokenizedText> encode(List<String> texts) {
        List<TokenizedText> encoded;
        try {
            encoded = texts.parallelStream().map(this::encode).toList();
        } catch (RuntimeException e) {
            throw new InvalidDataException(
                    "the tokenizer cannot encode the text: " + e.getMessage(),
                    path.toString(),
                    "give the tokenizer.json that belongs to the model",
                    e);
        }
        return padding.map(p -> p.pad(encoded)).orElse(encoded);
    }

    /**
     * Tokens of a text, with the part of the text that each stands for.
     *
     * @param special whether the special tokens of the tokenizer's template are added
     * @throws InvalidDataException when the text cannot be encoded
     */
    PlacedTokens place(String text, boolean special) {
        try {
            Encoding encoding = tokenizer.encode(text, special, false);
            return PlacedTokens.of(encoding.getIds(), encoding.getCharTokenSpans(), encoding.getSpecialTokenMask());
        } catch (RuntimeException e) {
            throw new InvalidDataException(
                    "the tokenizer cannot encode the text: " + e.getMessage(),
                    path.toString(),
                    "give the tokenizer.json that belongs to the model",
                    e);
        }
    }

    /**
     * Tokens of one text, with the special tokens of the tokenizer's template.
     *
     * @throws InvalidDataException when the text cannot be encoded
     */
    public List<Long> tokens(String text) {
        return Arrays.stream(encode(List.of(text)).getFirst().ids()).boxed().toList();
    }

    /**
     * The text of tokens, without special ones.
     *
     * @throws InvalidDataException when they are none of the tokenizer's
     */
    public String text(List<Long> tokens) {
        try {
            return tokenizer.decode(tokens.stream().mapToLong(t -> t).toArray(), true);
        } catch (RuntimeException e) {
            throw new InvalidDataException(
                    "the tokenizer cannot decode the tokens: " + e.getMessage(),
                    path.toString(),
                    "give the tokenizer.json that belongs to the model",
                    e);
        }
    }

    private TokenizedText encode(String text) {
        Encoding encoding = tokenizer.encode(text, true, false);
        return new TokenizedText(encoding.getIds(), encoding.getAttentionMask(), encoding.getTypeIds());
    }

    @Override
    public void close() {
        tokenizer.close();
    }
}
