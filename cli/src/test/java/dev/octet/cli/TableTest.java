package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TableTest {
    @Test
    void numbers_stand_right_and_words_left() {
        String text = new Table()
                .heading("dtype", "count")
                .row("F32", 5)
                .row("F8_E4M3FN", 12)
                .text(2);
        assertEquals("  dtype      count\n  F32            5\n  F8_E4M3FN     12\n", text);
    }

    @Test
    void a_table_of_names_and_values_has_its_values_at_their_names() {
        String text = new Table()
                .row("statistics", "a/rather/long/path/to/model.stats")
                .row("tensors", 24)
                .text(0);
        assertEquals("statistics  a/rather/long/path/to/model.stats\ntensors     24\n", text);
    }

    @Test
    void bytes_are_shown_with_one_decimal() {
        assertEquals("999 B", Table.bytes(999));
        assertEquals("1.0 kB", Table.bytes(1000));
        assertEquals("90.4 MB", Table.bytes(90_387_606));
        assertEquals("1.0 MB", Table.bytes(999_999));
        assertEquals("9.2 EB", Table.bytes(Long.MAX_VALUE));
    }

    @Test
    void control_characters_are_shown_not_obeyed() {
        assertEquals("a\\u001b[2Jb\n", new Table().row("a\u001b[2Jb").text(0));
    }
}
