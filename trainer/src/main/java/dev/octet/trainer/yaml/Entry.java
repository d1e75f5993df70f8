package dev.octet.trainer.yaml;

import java.util.List;

/** What stands behind a key. */
sealed interface Entry permits Entry.Scalar, Entry.Sequence, Section {
    /** Line it begins in, from 1. */
    int line();

    /**
     * One value.
     *
     * @param text as written, quotes removed
     * @param isNull whether nothing was written, or {@code null}
     */
    record Scalar(int line, String text, boolean isNull) implements Entry {}

    /** Values in brackets or after dashes. */
    record Sequence(int line, List<Entry> entries) implements Entry {
        public Sequence {
            entries = List.copyOf(entries);
        }
    }
}
