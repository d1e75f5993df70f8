package dev.octet.trainer.data;

import java.io.IOException;

/** Texts as tokens; who has a tokenizer gives them to {@link TextSamples}. Not thread-safe. */
public interface Texts extends AutoCloseable {
    /** What to call it in messages: the file's name. */
    String name();

    /** Number of texts, at least 1. */
    long count();

    /** SHA-256 over the texts and all that decides their tokens, lower-case hexadecimal. */
    String digest();

    /**
     * Tokens of one text, special ones included, cut to a longest length.
     *
     * @throws IOException when the file cannot be read any more
     */
    long[] tokens(long number) throws IOException;

    @Override
    void close() throws IOException;
}
