package dev.octet.formats.error;

import java.io.Serial;

/** Data given beside the model (calibration samples, statistics, tokenizer) does not fit it. Exit code 3. */
public final class InvalidDataException extends OctetException {
    @Serial
    private static final long serialVersionUID = 1L;

    public InvalidDataException(String what, String where, String fix) {
        super(what, where, fix, null);
    }

    public InvalidDataException(String what, String where, String fix, Throwable cause) {
        super(what, where, fix, cause);
    }
}
