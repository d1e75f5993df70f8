package dev.octet.cli;

import java.io.IOException;
import java.io.Serial;

/** Something could not be fetched, or is not what it should be. Told in three lines like every failure; exit code 4. */
final class DownloadException extends IOException {
    @Serial
    private static final long serialVersionUID = 1L;

    private final String where;
    private final String fix;

    DownloadException(String what, String where, String fix) {
        super(what);
        this.where = where;
        this.fix = fix;
    }

    /** From where, or into what. One line. */
    String where() {
        return where;
    }

    /** What the user can do. One line. */
    String fix() {
        return fix;
    }
}
