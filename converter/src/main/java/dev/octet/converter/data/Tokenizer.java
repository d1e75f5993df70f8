package dev.octet.converter.data;

import ai.djl.engine.EngineException;
import ai.djl.huggingface.tokenizers.Encoding;
import ai.djl.huggingface.tokenizers.HuggingFaceTokenizer;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnavailableException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;

/** A {@code tokenizer.json} of Hugging Face's tokenizers library, run by that library. */
final class Tokenizer implements AutoCloseable {
    private final HuggingFaceTokenizer tokenizer;
    private final Path path;

    private Tokenizer(HuggingFaceTokenizer tokenizer, Path path) {
        this.tokenizer = tokenizer;
        this.path = path;
    }

    /**
     * Opens a tokenizer file. It pads a batch to its longest text.
     *
     * @param maxLength longer texts are cut to this many tokens
     * @throws InvalidDataException when the file is no tokenizer
     * @throws UnavailableException when the native library cannot be loaded
     * @throws IOException when the file cannot be read
     */
    static Tokenizer open(Path path, int maxLength) throws IOException {
        return open(path, Map.of("padding", "true"), OptionalInt.of(maxLength));
    }

    /**
     * Opens a tokenizer file. It pads nothing, whatever the file says; throws as {@link #open(Path, int)}.
     *
     * @param maxLength longer texts are cut to this many tokens; empty for none
     */
    static Tokenizer unpadded(Path path, OptionalInt maxLength) throws IOException {
        return open(path, Map.of("padding", "false"), maxLength);
    }

    private static Tokenizer open(Path path, Map<String, String> padding, OptionalInt maxLength) throws IOException {
        Map<String, String> options = new HashMap<>(padding);
        String length = String.valueOf(maxLength.orElse(Integer.MAX_VALUE));
        options.put("truncation", String.valueOf(maxLength.isPresent()));
        options.put("maxLength", length);
        options.put("modelMaxLength", length);
        if (!Files.isRegularFile(path)) {
            throw new NoSuchFileException(path.toString());
        }
        TokenizerLibrary.prepare();
        try {
            return new Tokenizer(HuggingFaceTokenizer.newInstance(path, options), path);
        } catch (LinkageError | EngineException e) {
            throw new UnavailableException(
                    "the native library of the tokenizer cannot be loaded: " + e.getMessage(),
                    "ai.djl.huggingface:tokenizers on " + System.getProperty("os.name") + " "
                            + System.getProperty("os.arch"),
                    "give data as .npz with the token ids, or use a platform the library has a build for",
                    e);
        } catch (RuntimeException e) { // what the native code throws for a file it cannot parse
            throw new InvalidDataException(
                    "not a tokenizer: " + e.getMessage(),
                    path.toString(),
                    "give the tokenizer.json that belongs to the model",
                    e);
        }
    }

    /** Tokens of each text; with padding all of one length. */
    Encoding[] encode(List<String> texts) {
        try {
            return tokenizer.batchEncode(texts, true, false);
        } catch (RuntimeException e) {
            throw new InvalidDataException(
                    "the tokenizer cannot encode the text: " + e.getMessage(),
                    path.toString(),
                    "give the tokenizer.json that belongs to the model",
                    e);
        }
    }

    @Override
    public void close() {
        tokenizer.close();
    }
}
