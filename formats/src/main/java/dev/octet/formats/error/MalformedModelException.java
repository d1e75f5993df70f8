package dev.octet.formats.error;

import java.io.Serial;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A model file breaks a rule of its format: truncated, contradictory, hostile. Exit code 3.
 *
 * <p>A format that numbers or names its rules puts the name at the end of {@link #what()} in square brackets and in
 * {@link #rule()}, so that a program can tell them apart and a user can search for it.
 */
public final class MalformedModelException extends OctetException {
    @Serial
    private static final long serialVersionUID = 1L;

    private final @Nullable String rule;

    /** What is wrong, where it was found, how to mend it; one line each. */
    public MalformedModelException(String what, String where, String fix) {
        super(what, where, fix, null);
        this.rule = null;
    }

    /** What is wrong, where it was found, how to mend it; one line each, and what caused it. */
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

    /** Name of the rule that was broken; empty where the format has no names for its rules. */
    public Optional<String> rule() {
        return Optional.ofNullable(rule);
    }
}
