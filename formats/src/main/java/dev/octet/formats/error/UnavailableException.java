package dev.octet.formats.error;

import java.io.Serial;

/** A device or a native library that was asked for is not there or cannot be used. Exit code 5. */
public final class UnavailableException extends OctetException {
    @Serial
    private static final long serialVersionUID = 1L;

    /** What is wrong, where it was found, how to mend it; one line each. */
    public UnavailableException(String what, String where, String fix) {
        super(what, where, fix, null);
    }

    /** What is wrong, where it was found, how to mend it; one line each, and what caused it. */
    public UnavailableException(String what, String where, String fix, Throwable cause) {
        super(what, where, fix, cause);
    }
}
