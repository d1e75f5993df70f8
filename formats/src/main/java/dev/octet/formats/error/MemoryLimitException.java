package dev.octet.formats.error;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/** What was asked for needs more memory than there is. Exit code 5. */
public final class MemoryLimitException extends UnavailableException {
    @Serial
    private static final long serialVersionUID = 1L;

    private final long neededBytes;
    private final long limitBytes;

    /**
     * What is wrong, where it was found, how to fix it; one line each.
     *
     * @param neededBytes what would be needed, at least
     * @param limitBytes what there is
     */
    public MemoryLimitException(String what, long neededBytes, long limitBytes, String where, String fix) {
        this(what, neededBytes, limitBytes, where, fix, null);
    }

    private MemoryLimitException(
            String what, long neededBytes, long limitBytes, String where, String fix, @Nullable Throwable cause) {
        super(what, where, fix, cause);
        this.neededBytes = neededBytes;
        this.limitBytes = limitBytes;
    }

    /** What would be needed, at least. */
    public long neededBytes() {
        return neededBytes;
    }

    /** What there is. */
    public long limitBytes() {
        return limitBytes;
    }

    /** The same with another way out. */
    public MemoryLimitException withFix(String other) {
        return new MemoryLimitException(what(), neededBytes, limitBytes, where(), other, this);
    }
}
