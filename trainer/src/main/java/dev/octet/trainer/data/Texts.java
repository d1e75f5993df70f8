package dev.octet.trainer.data;

import java.io.IOException;
import java.util.List;

/** Texts as tokens; who has a tokenizer gives them to {@link TextSamples} or {@link PackedSamples}. Not thread-safe. */
public interface Texts extends AutoCloseable {
    /** What to call it in messages: the file's name. */
    String name();

    /** Number of texts, at least 1. */
    long count();

    /** SHA-256 over the texts and all that decides their tokens, lower-case hexadecimal. */
    String digest();

    /**
     * Tokens of some texts, special ones included, each cut to a longest length where one was asked for.
     *
     * @param from number of the first
     * @throws IOException when the file cannot be read any more
     */
    List<long[]> tokens(long from, int size) throws IOException;

    /**
     * The token that ends a text.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when nothing says which one that is
     * @throws IOException when the tokenizer cannot be read any more
     */
    long endOfText() throws IOException;

    /**
     * The largest token that any text could have.
     *
     * @throws IOException when the tokenizer cannot be read any more
     */
    long largestToken() throws IOException;

    @Override
    void close() throws IOException;
}
