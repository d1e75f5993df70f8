package dev.octet.converter.data;

import dev.octet.converter.jinja.RenderedTemplate;
import dev.octet.converter.jinja.RenderedTemplate.Span;
import dev.octet.formats.error.InvalidDataException;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A text with the parts of it that count.
 *
 * @param text the text
 * @param counted parts, in order, in chars; null for all of it
 * @param special whether the tokenizer adds its special tokens; a chat template writes them itself
 * @param ended whether the end-of-text token follows, and counts
 */
record ChatText(String text, @Nullable List<Span> counted, boolean special, boolean ended) {
    /** A text of which everything counts. */
    static ChatText plain(String text) {
        return new ChatText(text, null, true, false);
    }

    /** A prompt and a completion, which counts. */
    static ChatText completion(String prompt, String completion, boolean all) {
        String text = prompt + completion;
        return new ChatText(text, all ? null : List.of(new Span(prompt.length(), text.length())), true, true);
    }

    /**
     * A conversation of which the assistant's turns count: those in {@code generation} blocks where the template has them, else what the
     * text has from where the assistant is to write to the end of its message. That needs a template that renders the beginning of a
     * conversation as the beginning of its text.
     *
     * @throws InvalidDataException when the template does not, or nothing is the assistant's
     */
    static ChatText assistant(ChatTemplate template, Conversation conversation, String where) {
        RenderedTemplate whole = template.render(conversation, false, where);
        if (template.marksGeneration(conversation)) {
            List<Span> marked =
                    whole.generated().stream().filter(s -> s.to() > s.from()).toList();
            return new ChatText(whole.text(), required(marked, where), false, false);
        }
        List<Span> turns = new ArrayList<>();
        for (int i = 0; i < conversation.messages().size(); i++) {
            if (conversation.isAssistant(i)) {
                String before = i == 0
                        ? ""
                        : template.render(conversation.first(i), true, where).text();
                String after =
                        template.render(conversation.first(i + 1), false, where).text();
                require(after.startsWith(before) && whole.text().startsWith(after), i, where);
                turns.add(new Span(before.length(), after.length()));
            }
        }
        return new ChatText(whole.text(), required(turns, where), false, false);
    }

    /**
     * A conversation of which the messages from one on count.
     *
     * @throws InvalidDataException when the template does not render those before as the beginning of the text
     */
    static ChatText from(ChatTemplate template, Conversation conversation, int first, String where) {
        String before = template.render(conversation.first(first), true, where).text();
        String whole = template.render(conversation, false, where).text();
        require(whole.startsWith(before), first, where);
        return new ChatText(whole, List.of(new Span(before.length(), whole.length())), false, false);
    }

    /** A conversation that counts as a whole. */
    static ChatText whole(ChatTemplate template, Conversation conversation, String where) {
        return new ChatText(template.render(conversation, false, where).text(), null, false, false);
    }

    private static List<Span> required(List<Span> spans, String where) {
        if (spans.isEmpty()) {
            throw new InvalidDataException(
                    "the conversation has no message of the assistant, so nothing of it counts",
                    where,
                    "remove it, or train on all: data: {train_on: all}");
        }
        return spans;
    }

    private static void require(boolean holds, int message, String where) {
        if (!holds) {
            throw new InvalidDataException(
                    "the chat template renders the conversation up to message " + (message + 1)
                            + " otherwise than the whole one begins, so the assistant's part cannot be found",
                    where,
                    "use a template with {% generation %} blocks, give one answer of the assistant per conversation,"
                            + " or train on all: data: {train_on: all}");
        }
    }
}
