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
