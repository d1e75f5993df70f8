package dev.octet.formats.error;

import java.io.Serial;

/** A device or a native library that was asked for is not there or cannot be used. Exit code 5. */
public final class UnavailableException extends OctetException {
    @Serial
    private static final long serialVersionUID = 1L;

    public UnavailableException(String what, String where, String fix) {
        super(what, where, fix, null);
    }

    public UnavailableException(String what, String where, String fix, Throwable cause) {
        super(what, where, fix, cause);
    }
}
