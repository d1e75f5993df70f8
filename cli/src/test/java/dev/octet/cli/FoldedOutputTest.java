package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FoldedOutputTest {
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final PrintStream terminal = new PrintStream(bytes, true, StandardCharsets.UTF_8);
    private final PrintStream folded = FoldedOutput.to(terminal, TextStyle.terminal(40));

    private String shown() {
        return bytes.toString(StandardCharsets.UTF_8);
    }

    @Test
    void a_line_that_comes_in_pieces_is_broken_as_a_whole() {
        for (int i = 0; i < 12; i++) {
            folded.print("word" + i + " ");
        }
        assertEquals("", shown());
        folded.println();
        assertEquals("word0 word1 word2 word3 word4 word5\n  word6 word7 word8 word9 word10 word11 \n", shown());
    }

    @Test
    void a_page_of_any_size_is_broken_line_by_line() {
        folded.print(("x".repeat(30) + " " + "y".repeat(30) + "\n").repeat(2000));
        assertEquals(("x".repeat(30) + "\n  " + "y".repeat(30) + "\n").repeat(2000), shown());
    }

    @Test
    void a_line_that_is_rewritten_in_place_is_left_alone_and_the_next_is_broken() {
        folded.print("\r" + "=".repeat(39));
        folded.flush();
        folded.println("\r" + " ".repeat(39) + "\rstep 3: the loss is not finite, first in layer.0");
        assertEquals(
                "\r" + "=".repeat(39) + "\r" + " ".repeat(39)
                        + "\rstep 3: the loss is not finite, first in\n  layer.0\n",
                shown());
    }

    @Test
    void a_line_for_a_program_stays_one_line() {
        String line = "{\"task\":\"calibrating\",\"done\":1,\"total\":100,\"unit\":\"samples\"}\n";
        folded.print(line);
        assertEquals(line, shown());
    }

    @Test
    void a_file_gets_what_is_printed() {
        assertSame(terminal, FoldedOutput.to(terminal, TextStyle.PLAIN));
    }
}
