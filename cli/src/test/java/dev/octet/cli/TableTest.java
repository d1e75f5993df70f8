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
    void control_characters_are_shown_not_obeyed() {
        assertEquals("a\\u001b[2Jb\n", new Table().row("a\u001b[2Jb").text(0));
    }

    @Test
    void the_widest_text_gives_way_where_a_table_does_not_fit() {
        Table table = new Table().heading("tensor", "error", "reason");
        table.row("model/encoder/layer/0/attention", 1.25, "the scale is not a constant of the graph");
        String text = TextStyle.terminal(60).page(() -> table.text(0));
        assertEquals("""
            tensor                  error  reason
            model/encoder/layer/0/   1.25  the scale is not a
            attention                      constant of the graph
            """, text);
    }

    @Test
    void a_row_becomes_a_paragraph_where_its_columns_cannot_stand_next_to_each_other() {
        Table table = new Table().heading("tensor", "largest", "smallest", "difference", "scales", "elements");
        table.row("encoder.layer.0", 1.25, 0.5, 100.25, "same", 4096);
        String text = TextStyle.terminal(40).page(() -> table.text(0));
        assertEquals("""
            encoder.layer.0
              largest 1.25  smallest 0.5
              difference 100.25  scales same
              elements 4096
            """, text);
    }

    @Test
    void a_table_in_a_file_is_as_wide_as_it_comes() {
        String path = "a/very/long/path/".repeat(20);
        assertEquals("model  " + path + "\n", new Table().row("model", path).text(0));
    }

    @Test
    void a_cell_is_coloured_and_its_blanks_are_not() {
        Table table = new Table().heading("check", "result").row("cosine", Table.cell("FAILED", Tone.BAD));
        String text = TextStyle.terminal(80).with(Color.ALWAYS).page(() -> table.text(0));
        assertEquals("\u001b[1mcheck\u001b[0m   \u001b[1mresult\u001b[0m\ncosine  \u001b[1;31mFAILED\u001b[0m\n", text);
    }
}
