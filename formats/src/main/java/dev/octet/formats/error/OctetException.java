package dev.octet.formats.error;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/**
 * A failure that a user can act on, in three lines: what is wrong, where it was found, how to fix it.
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

    /** Longest line of a message, in UTF-16 units; a name can be as long as a header. */
    private static final int MAX_LINE_CHARS = 1000;

    private final String what;
    private final String where;
    private final String fix;

    protected OctetException(String what, String where, String fix, @Nullable Throwable cause) {
        super(
                oneLine(what)
                        + System.lineSeparator()
                        + "  where: "
                        + oneLine(where)
                        + System.lineSeparator()
                        + "  fix:   "
                        + oneLine(fix),
                cause);
        this.what = oneLine(what);
        this.where = oneLine(where);
        this.fix = oneLine(fix);
    }

    /**
     * Makes text safe for one line, because it may contain names from a hostile file: control characters (line breaks, terminal escapes)
     * become their code (backslash, u, four hex digits), and an overlong line keeps only its ends.
     */
    private static String oneLine(String text) {
        String shown = text.length() <= MAX_LINE_CHARS
                ? text
                : text.substring(0, MAX_LINE_CHARS / 2) + " ... " + text.substring(text.length() - MAX_LINE_CHARS / 2);
        StringBuilder line = new StringBuilder(shown.length());
        for (int i = 0; i < shown.length(); i++) {
            char c = shown.charAt(i);
            if (Character.isISOControl(c) || c == 0x2028 || c == 0x2029) {
                line.append(String.format("\\%c%04x", 'u', (int) c));
            } else {
                line.append(c);
            }
        }
        return line.toString();
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
