package dev.octet.converter.generate;

import java.util.List;

/**
 * What follows a prompt.
 *
 * @param tokens the token that ends the text included
 * @param end why no more follow
 */
public record GeneratedTokens(List<Long> tokens, End end) {
    public GeneratedTokens {
        tokens = List.copyOf(tokens);
    }

    /** Why a text ends. */
    public enum End {
        /** A token that ends texts. */
        END_OF_TEXT,
        /** As many tokens as were asked for. */
        LENGTH,
        /** The model has no more positions. */
        POSITIONS
    }
}
