package dev.octet.formats.error;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/** A requested device or native library is missing or unusable. Exit code 5. */
public sealed class UnavailableException extends OctetException permits DeviceLostException, MemoryLimitException {
    @Serial
    private static final long serialVersionUID = 1L;

    /** What is wrong, where it was found, how to fix it; one line each. */
    public UnavailableException(String what, String where, String fix) {
        this(what, where, fix, null);
    }

    /** What is wrong, where it was found, how to fix it; one line each, and what caused it. */
    public UnavailableException(String what, String where, String fix, @Nullable Throwable cause) {
        super(what, where, fix, cause);
    }

    /**
     * For a library that the training archive omits.
     *
     * @param library its usual name
     * @param artifact group and name of its Maven artifact
     */
    public static UnavailableException leftOut(String library, String artifact, ClassNotFoundException cause) {
        return new UnavailableException(
                "this needs " + library + ", which is not part of this Octet",
                "class path, " + artifact,
                "use the full archive octet-VERSION-linux-x86_64.tar.gz instead of octet-train-..., or put the jar on"
                        + " the class path",
                cause);
    }
}
