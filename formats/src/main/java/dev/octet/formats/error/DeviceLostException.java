package dev.octet.formats.error;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/**
 * A device failed during work and is unusable for this process: an address out of bounds, a memory error, a GPU that fell off the bus. The
 * contents of its memory are lost; files written before are not. Exit code 5.
 */
public final class DeviceLostException extends UnavailableException {
    @Serial
    private static final long serialVersionUID = 1L;

    /** What is wrong, where it was found, how to fix it; one line each, and what caused it. */
    public DeviceLostException(String what, String where, String fix, @Nullable Throwable cause) {
        super(what, where, fix, cause);
    }
}
