package dev.octet.trainer.data;

import java.io.IOException;
import java.util.List;
import java.util.Optional;

/**
 * Tokenized texts, the input of {@link TextSamples} and {@link PackedSamples}; the module with tokenizers implements it. Not thread-safe.
 */
public interface Texts extends AutoCloseable {
    /** File name, for messages. */
    String name();

    /** Number of texts, at least 1. */
    long count();

    /** SHA-256 over the texts and everything that affects their tokens, lower-case hexadecimal. */
    String digest();

    /**
     * Tokens of consecutive texts, with special tokens, each truncated if a limit was given.
     *
     * @param from index of the first text
     * @throws IOException when the file can no longer be read
     */
    List<long[]> tokens(long from, int size) throws IOException;

    /**
     * Which tokens of a text are learnt, as {@link #tokens} gives them; empty for all. The others are what the model is given to answer.
     *
     * @param text its index
     * @throws IOException when the file can no longer be read
     */
    default Optional<boolean[]> counted(long text) throws IOException {
        return Optional.empty();
    }

    /** Whether packing puts the end-of-text token after each text; what a chat template renders has its own end. */
    default boolean takesEnd() {
        return true;
    }

    /** Labels that are written with the texts. */
    interface Labels {
        /** The numbers of a text's label: one, or those of a list. */
        double[] values(long text);

        /** Whether they are all written as whole numbers. */
        boolean isWhole(long text);

        /** The line of a text in its file, from 1, for messages. */
        long line(long text);
    }

    /**
     * Labels of the texts; empty when the texts have none under this key.
     *
     * @throws dev.octet.formats.error.InvalidDataException when a text has no label although others do, or one that is not made of numbers
     * @throws IOException when the file can no longer be read
     */
    Optional<Labels> labels(String key) throws IOException;

    /**
     * The end-of-text token.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when it is unknown
     * @throws IOException when the tokenizer can no longer be read
     */
    long endOfText() throws IOException;

    /**
     * The largest token that a text can contain.
     *
     * @throws IOException when the tokenizer can no longer be read
     */
    long largestToken() throws IOException;

    @Override
    void close() throws IOException;
}
