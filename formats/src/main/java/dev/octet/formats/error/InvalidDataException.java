package dev.octet.formats.error;

import java.io.Serial;

/** Data for a model (calibration samples, statistics, tokenizer) do not fit it. Exit code 3. */
public final class InvalidDataException extends OctetException {
    @Serial
    private static final long serialVersionUID = 1L;

    /** What is wrong, where it was found, how to fix it; one line each. */
    public InvalidDataException(String what, String where, String fix) {
        super(what, where, fix, null);
    }

    /** What is wrong, where it was found, how to fix it; one line each, and what caused it. */
    public InvalidDataException(String what, String where, String fix, Throwable cause) {
        super(what, where, fix, cause);
    }
}
