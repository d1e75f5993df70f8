package dev.octet.pipeline.quickstart;

import java.io.IOException;
import java.io.Serial;

/** Something could not be fetched, or is not what it should be. Failures have three lines: what, where, fix. */
public final class DownloadException extends IOException {
    @Serial
    private static final long serialVersionUID = 1L;

    private final String where;
    private final String fix;

    /** What is wrong, where, and what the user can do; one line each. */
    public DownloadException(String what, String where, String fix) {
        super(what);
        this.where = where;
        this.fix = fix;
    }

    /** From where, or into what. One line. */
    public String where() {
        return where;
    }

    /** What the user can do. One line. */
    public String fix() {
        return fix;
    }
}
