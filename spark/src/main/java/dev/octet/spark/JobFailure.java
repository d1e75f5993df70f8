package dev.octet.spark;

import dev.octet.formats.error.OctetException;
import java.io.IOException;

/** What Spark throws when a job fails, as Octet's callers know it. */
final class JobFailure {
    private JobFailure() {}

    /**
     * The failure of a job, as an exception to throw.
     *
     * @throws OctetException where a task ended with one: the fault of a model or a request
     */
    static IOException of(Throwable thrown) {
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            if (cause instanceof OctetException octet) {
                throw octet;
            }
        }
        if (thrown instanceof RuntimeException unchecked) {
            throw unchecked;
        }
        if (thrown instanceof IOException io) {
            return io;
        }
        String why = String.valueOf(thrown.getMessage());
        return new IOException(why.lines().findFirst().orElse("the job failed"), thrown);
    }
}
