package dev.octet.spark;

import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnavailableException;
import java.io.IOException;
import java.nio.file.FileSystemException;

/** What Spark throws when a job fails, as Octet's callers know it. */
final class JobFailure {
    private JobFailure() {}

    /** A library that is not the one Octet was built with, in an executor: Spark would end the executor over the error itself. */
    static UnavailableException of(LinkageError e) {
        return new UnavailableException(
                "a library of Octet does not go with one of Spark's: " + e.getMessage(),
                "an executor",
                "let Octet's come first: --conf spark.driver.userClassPathFirst=true --conf"
                        + " spark.executor.userClassPathFirst=true",
                e);
    }

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
            if (cause instanceof FileSystemException file) {
                return file;
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
