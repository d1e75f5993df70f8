package dev.octet.cli;

import java.io.Serial;
import java.util.Collection;
import java.util.List;
import org.apache.commons.cli.Option;

/** An option whose value is one of a few words, which completion offers; its description says what they mean. */
final class ChoiceOption extends Option {
    @Serial
    private static final long serialVersionUID = 1L;

    private final String[] choices;

    private ChoiceOption(String name, String argument, Collection<String> choices, String description) {
        super(null, name, true, description);
        setArgName(argument);
        this.choices = choices.toArray(String[]::new);
    }

    /** One of {@code choices}. */
    static ChoiceOption of(String name, String argument, Collection<String> choices, String description) {
        return new ChoiceOption(name, argument, choices, description);
    }

    List<String> choices() {
        return List.of(choices);
    }
}
