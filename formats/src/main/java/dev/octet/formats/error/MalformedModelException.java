package dev.octet.formats.error;

import java.io.Serial;

/** A model file breaks a rule of its format: truncated, contradictory, hostile. Exit code 3. */
public final class MalformedModelException extends OctetException {
    @Serial
    private static final long serialVersionUID = 1L;

    public MalformedModelException(String what, String where, String fix) {
        super(what, where, fix, null);
    }

    public MalformedModelException(String what, String where, String fix, Throwable cause) {
        super(what, where, fix, cause);
    }
}
