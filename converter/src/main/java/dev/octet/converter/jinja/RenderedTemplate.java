package dev.octet.converter.jinja;

import java.util.List;

/**
 * What a template rendered.
 *
 * @param text the text
 * @param generated the parts of it that lie in generation blocks, in order
 */
public record RenderedTemplate(String text, List<Span> generated) {
    public RenderedTemplate {
        generated = List.copyOf(generated);
    }

    /**
     * A part of a text, in chars.
     *
     * @param from its first char
     * @param to the first char behind it
     */
    public record Span(int from, int to) {}
}
