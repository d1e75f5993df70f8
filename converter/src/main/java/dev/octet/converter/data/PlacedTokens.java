package dev.octet.converter.data;

import ai.djl.huggingface.tokenizers.jni.CharSpan;
import dev.octet.converter.jinja.RenderedTemplate.Span;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Tokens, and which code points of their text each stands for.
 *
 * @param ids the tokens
 * @param from first code point of each; -1 for tokens that stand for none
 * @param to first code point behind each
 */
@SuppressWarnings("ArrayRecordComponent") // read once, never compared
record PlacedTokens(int[] ids, int[] from, int[] to) {
    /** What the library gives: null, or a special token of its template, stands for no text. */
    static PlacedTokens of(long[] ids, @Nullable CharSpan[] spans, long[] added) {
        int[] tokens = new int[ids.length];
        int[] from = new int[ids.length];
        int[] to = new int[ids.length];
        for (int i = 0; i < ids.length; i++) {
            tokens[i] = Math.toIntExact(ids[i]);
            CharSpan span = spans[i];
            // the mask also marks special tokens that are written in the text: those have a place there
            boolean placed = span != null && (added[i] == 0 || span.getEnd() > span.getStart());
            from[i] = placed ? span.getStart() : -1;
            to[i] = placed ? span.getEnd() : -1;
        }
        return new PlacedTokens(tokens, from, to);
    }

    /** Which tokens stand for some of these parts of the text, as transformers' {@code char_to_token} places them. */
    boolean[] within(String text, List<Span> parts) {
        boolean[] within = new boolean[ids.length];
        int chars = 0;
        int points = 0;
        for (Span part : parts) {
            points += text.codePointCount(chars, part.from());
            int first = points;
            points += text.codePointCount(part.from(), part.to());
            chars = part.to();
            for (int i = 0; i < ids.length; i++) {
                int end = Math.max(to[i], from[i] + 1);
                within[i] |= from[i] >= 0 && from[i] < points && end > first;
            }
        }
        return within;
    }
}
