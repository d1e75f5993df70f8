package dev.octet.trainer.yaml;

import java.util.List;

/** Value of a key. */
sealed interface Entry permits Entry.Scalar, Entry.Sequence, Section {
    /** First line, from 1. */
    int line();

    /**
     * A single value.
     *
     * @param text as written, without quotes
     * @param kind what the file's grammar takes it for
     */
    record Scalar(int line, String text, Section.Kind kind) implements Entry {
        /** Whether the value is empty or {@code null}. */
        boolean isNull() {
            return kind == Section.Kind.NULL;
        }
    }

    /** A list, in brackets or with dashes. */
    record Sequence(int line, List<Entry> entries) implements Entry {
        public Sequence {
            entries = List.copyOf(entries);
        }
    }
}
