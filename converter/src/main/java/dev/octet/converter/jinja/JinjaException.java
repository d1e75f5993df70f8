package dev.octet.converter.jinja;

import org.jspecify.annotations.Nullable;

/** A template that cannot be parsed or rendered. */
public final class JinjaException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final boolean raised;

    private JinjaException(String message, boolean raised, @Nullable Throwable cause) {
        super(message, cause);
        this.raised = raised;
    }

    /** An error in the template. */
    JinjaException(String message) {
        this(message, false, null);
    }

    /** What a template says by {@code raise_exception}. */
    static JinjaException raisedBy(String message) {
        return new JinjaException(message, true, null);
    }

    /** The same with the line of the statement; the innermost line stays. */
    JinjaException atLine(int line) {
        String message = String.valueOf(getMessage());
        return raised || message.startsWith("line ")
                ? this
                : new JinjaException("line " + line + ": " + message, false, this);
    }

    /** Whether the template itself refuses its values, by {@code raise_exception}. */
    public boolean isRaisedByTemplate() {
        return raised;
    }
}
