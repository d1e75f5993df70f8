package dev.octet.formats.error;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/**
 * A failure that a user can act on, told in three lines: what is wrong, where it was found, how to mend it.
 *
 * <p>Subclasses name the kind of failure (and so the exit code of the command line); they add nothing else.
 */
public abstract sealed class OctetException extends RuntimeException
        permits MalformedModelException,
                UnsupportedModelException,
                InvalidDataException,
                InvalidOptionException,
                UnavailableException {
    @Serial
    private static final long serialVersionUID = 1L;

    private final String what;
    private final String where;
    private final String fix;

    protected OctetException(String what, String where, String fix, @Nullable Throwable cause) {
        super(what + System.lineSeparator() + "  where: " + where + System.lineSeparator() + "  fix:   " + fix, cause);
        this.what = what;
        this.where = where;
        this.fix = fix;
    }

    /** What is wrong, with the numbers in it. One line. */
    public final String what() {
        return what;
    }

    /** Where it was found: file, field, byte range, node. One line. */
    public final String where() {
        return where;
    }

    /** What the user can do about it. One line. */
    public final String fix() {
        return fix;
    }
}
