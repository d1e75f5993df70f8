package dev.octet.formats.error;

import java.io.Serial;

/** A well-formed model uses something Octet does not handle at all (an unknown opset, a future element type). Exit code 3. */
public final class UnsupportedModelException extends OctetException {
    @Serial
    private static final long serialVersionUID = 1L;

    /** What is wrong, where it was found, how to fix it; one line each. */
    public UnsupportedModelException(String what, String where, String fix) {
        super(what, where, fix, null);
    }

    /** What is wrong, where it was found, how to fix it; one line each, and what caused it. */
    public UnsupportedModelException(String what, String where, String fix, Throwable cause) {
        super(what, where, fix, cause);
    }
}
