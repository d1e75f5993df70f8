package dev.octet.converter.data;

import java.util.List;
import java.util.Optional;

/** What a row of a data set is, by its columns. */
enum SampleKind {
    /** A text: every token counts. */
    TEXT("text"),
    /** A conversation, {@code messages} of {@code role} and {@code content}. */
    MESSAGES("messages"),
    /** A conversation as ShareGPT spells it, {@code conversations} of {@code from} and {@code value}. */
    CONVERSATIONS("conversations"),
    /** A prompt and what is to follow. */
    COMPLETION("prompt", "completion"),
    /** Tokens, perhaps with labels. */
    TOKENS("input_ids"),
    /** A preferred and a refused answer, with their prompt. */
    PREFERENCE("chosen", "rejected");

    /** Those that a language model is trained on, in the order in which a row with several is read. */
    static final List<SampleKind> TRAINED = List.of(TEXT, MESSAGES, CONVERSATIONS, COMPLETION, TOKENS);

    /** Names with a space between them. */
    private final String columns;

    SampleKind(String... columns) {
        this.columns = String.join(" ", columns);
    }

    /** The columns that a row needs. */
    List<String> columns() {
        return List.of(columns.split(" ", -1));
    }

    /** Whether a row has these columns. */
    boolean fits(Row row) {
        return columns().stream().allMatch(row::has);
    }

    /** The first of some kinds that a row fits. */
    static Optional<SampleKind> of(Row row, List<SampleKind> kinds) {
        return kinds.stream().filter(k -> k.fits(row)).findFirst();
    }

    @Override
    public String toString() {
        return String.join(" and ", columns().stream().map(c -> "\"" + c + "\"").toList());
    }
}
