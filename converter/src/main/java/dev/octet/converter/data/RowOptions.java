package dev.octet.converter.data;

import java.nio.file.Path;
import java.time.LocalDate;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * How the rows of a data set become tokens.
 *
 * @param purpose what is trained
 * @param chatTemplate a Jinja template of chats; empty for the one that lies with the tokenizer
 * @param trainOn the tokens that count
 * @param date today for a template that asks; empty where such a template is refused, since what it renders would change from day to day
 * @param maxLength tokens to which a sample is cut; empty for no limit
 * @param end the token that ends a text; empty to read it from the files next to the tokenizer
 */
public record RowOptions(
        Purpose purpose,
        Optional<Path> chatTemplate,
        TrainOn trainOn,
        Optional<LocalDate> date,
        OptionalInt maxLength,
        Optional<String> end) {
    /** Sequences of any length, of which the assistant's tokens count, by the template next to the tokenizer. */
    public static RowOptions defaults() {
        return new RowOptions(
                Purpose.SEQUENCES,
                Optional.empty(),
                TrainOn.ASSISTANT,
                Optional.empty(),
                OptionalInt.empty(),
                Optional.empty());
    }

    /** The same for another purpose. */
    public RowOptions withPurpose(Purpose other) {
        return new RowOptions(other, chatTemplate, trainOn, date, maxLength, end);
    }

    /** The same with a template. */
    public RowOptions withChatTemplate(Path template) {
        return new RowOptions(purpose, Optional.of(template), trainOn, date, maxLength, end);
    }

    /** The same with other tokens that count. */
    public RowOptions withTrainOn(TrainOn tokens) {
        return new RowOptions(purpose, chatTemplate, tokens, date, maxLength, end);
    }

    /** The same with a date. */
    public RowOptions withDate(LocalDate today) {
        return new RowOptions(purpose, chatTemplate, trainOn, Optional.of(today), maxLength, end);
    }

    /** The same with samples cut to so many tokens. */
    public RowOptions withMaxLength(int tokens) {
        return new RowOptions(purpose, chatTemplate, trainOn, date, OptionalInt.of(tokens), end);
    }

    /** The same with a token that ends a text. */
    public RowOptions withEnd(String token) {
        return new RowOptions(purpose, chatTemplate, trainOn, date, maxLength, Optional.of(token));
    }

    /** What rows are for. */
    public enum Purpose {
        /** Each sample is a sequence of tokens. */
        SEQUENCES,
        /** Each sample is a pair: the preferred and the refused answer to a prompt. */
        PREFERENCES
    }

    /** Which tokens of a conversation count. */
    public enum TrainOn {
        /** What the assistant writes, with the token that ends its turn; of a prompt and a completion, the completion. */
        ASSISTANT,
        /** All. */
        ALL
    }
}
