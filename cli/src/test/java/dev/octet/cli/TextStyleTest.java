package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TextStyleTest {
    @ParameterizedTest
    @CsvSource({"132, 132", "80, 80", "20, 40", "unknown, 80", "0, 80", "-5, 80", "'', 80", "123456789, 80"})
    void the_width_is_that_of_the_terminal_and_80_where_it_is_not_known(String told, int columns) {
        assertEquals(columns, TextStyle.of(told, Map.of()).columns());
    }

    @Test
    void what_is_no_terminal_has_no_width_and_no_colours() {
        assertEquals(TextStyle.PLAIN, TextStyle.of(null, Map.of("TERM", "xterm")));
    }

    @Test
    void no_color_and_a_dumb_terminal_are_respected() {
        assertTrue(TextStyle.of("80", Map.of("TERM", "xterm")).colored());
        assertTrue(TextStyle.of("80", Map.of("NO_COLOR", "")).colored());
        assertFalse(TextStyle.of("80", Map.of("NO_COLOR", "1")).colored());
        assertFalse(TextStyle.of("80", Map.of("TERM", "dumb")).colored());
    }

    @Test
    void lines_are_broken_at_blanks_and_go_on_where_their_text_began() {
        String folded =
                TextStyle.terminal(40).fold("note     the scales of three tensors are not the ones of the file\n");
        assertEquals("note     the scales of three tensors are\n         not the ones of the file\n", folded);
    }

    @Test
    void a_path_is_broken_after_one_of_its_parts() {
        assertEquals(
                List.of("/home/somebody/models/", "all-MiniLM-L6-v2/", "model.safetensors"),
                TextStyle.broken("/home/somebody/models/all-MiniLM-L6-v2/model.safetensors", 24));
    }

    @Test
    void a_command_can_be_copied_in_all_its_lines() {
        String command = "octet quantize model.onnx -o model.fp8.onnx --statistics model.stats --report report.html";
        List<String> lines = TextStyle.broken(command, 40);
        assertEquals(command, String.join("\n", lines).replace(" \\\n", " "));
        assertTrue(lines.stream().allMatch(l -> l.length() <= 40), lines.toString());
    }

    @ParameterizedTest
    @ValueSource(ints = {40, 57, 80})
    void no_line_is_longer_than_the_terminal_is_wide(int columns) {
        String text = "a".repeat(200) + " \ud83d\ude00".repeat(100) + "\nkey  " + "path/".repeat(40) + " x\n  "
                + "\ud83d\ude00".repeat(150);
        String folded = TextStyle.terminal(columns).fold(text);
        assertTrue(folded.lines().allMatch(l -> TextStyle.width(l) <= columns), folded);
        assertEquals(text.replaceAll("\\s", ""), folded.replaceAll("\\s", ""));
    }

    @Test
    void what_does_not_reach_the_end_of_the_line_is_left_alone() {
        String text = "  two   words\n\n\nmore  \n";
        assertEquals(text, TextStyle.terminal(80).fold(text));
        assertEquals("x".repeat(500), TextStyle.PLAIN.fold("x".repeat(500)));
    }

    @Test
    void escape_sequences_take_no_room() {
        String text = Tone.BAD.paint("x".repeat(38)) + " y";
        assertEquals(text, TextStyle.terminal(40).fold(text));
    }
}
