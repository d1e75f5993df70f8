package dev.octet.formats.error;

import java.io.Serial;

/** An option of a call does not fit: a pattern that matches nothing, a calibrator that does not exist. Exit code 2. */
public final class InvalidOptionException extends OctetException {
    @Serial
    private static final long serialVersionUID = 1L;

    /** What is wrong, where it was found, how to fix it; one line each. */
    public InvalidOptionException(String what, String where, String fix) {
        super(what, where, fix, null);
    }

    /** What is wrong, where it was found, how to fix it; one line each, and what caused it. */
    public InvalidOptionException(String what, String where, String fix, Throwable cause) {
        super(what, where, fix, cause);
    }
}
