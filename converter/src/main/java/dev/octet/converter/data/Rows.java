package dev.octet.converter.data;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Set;

/** The rows of one file, read from the first to the last. */
sealed interface Rows permits JsonRows, ParquetRows {
    /** Takes rows. */
    interface Visitor {
        /** Takes a row; false ends the reading. */
        boolean row(Row row) throws IOException;
    }

    /** The file. */
    Path file();

    /**
     * Reads the rows in order.
     *
     * @param columns those that are needed, where there are some; rows may have more
     * @throws dev.octet.formats.error.InvalidDataException when the file is malformed; the message has the line or row
     * @throws IOException when it cannot be read
     */
    void read(Set<String> columns, Visitor visitor) throws IOException;
}
