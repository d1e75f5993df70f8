package dev.octet.formats.error;

import java.io.Serial;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A model file breaks a rule of its format: truncated, contradictory, hostile. Exit code 3.
 *
 * <p>If the format names its rules, the name is in {@link #rule()} for programs, and in square brackets at the end of {@link #what()} for
 * users to search for.
 */
public final class MalformedModelException extends OctetException {
    @Serial
    private static final long serialVersionUID = 1L;

    private final @Nullable String rule;

    /** What is wrong, where it was found, how to fix it; one line each. */
    public MalformedModelException(String what, String where, String fix) {
        super(what, where, fix, null);
        this.rule = null;
    }

    /** What is wrong, where it was found, how to fix it; one line each, and what caused it. */
    public MalformedModelException(String what, String where, String fix, Throwable cause) {
        super(what, where, fix, cause);
        this.rule = null;
    }

    private MalformedModelException(String rule, String what, String where, String fix, @Nullable Throwable cause) {
        super(what + " [" + rule + "]", where, fix, cause);
        this.rule = rule;
    }

    /** The breach of a named rule, for instance safetensors' {@code HeaderTooLarge}. */
    public static MalformedModelException ofRule(
            String rule, String what, String where, String fix, @Nullable Throwable cause) {
        return new MalformedModelException(rule, what, where, fix, cause);
    }

    /** Name of the broken rule; empty if the format does not name its rules. */
    public Optional<String> rule() {
        return Optional.ofNullable(rule);
    }
}
