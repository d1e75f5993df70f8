package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.converter.expand.TrainingExpansions;
import dev.octet.pipeline.ExampleConfig;
import dev.octet.trainer.op.Ops;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** docs/training.md against the program. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TrainingPageTest {
    /** The names in the first list after a line that begins so. */
    private static List<String> listAfter(String line) throws IOException {
        Path page = Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/training.md");
        String text = Files.readString(page);
        String after = text.substring(text.indexOf("\n" + line));
        String[] paragraphs = after.strip().split("\n\n", 3);
        return List.of(paragraphs[1].replace('\n', ' ').split(", ?"));
    }

    @Test
    void it_lists_exactly_the_operators_that_are_trained() throws IOException {
        assertEquals(Ops.names(), listAfter("Trained as they are"));
    }

    @Test
    void it_lists_exactly_the_tasks_that_have_an_example() throws IOException {
        Path page = Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/training.md");
        List<String> tasks = Files.readAllLines(page).stream()
                .dropWhile(l -> !l.startsWith("`octet train --example-config TASK`"))
                .skip(2)
                .takeWhile(l -> l.startsWith("- `"))
                .map(l -> l.substring(3, l.indexOf('`', 3)))
                .toList();
        assertEquals(ExampleConfig.names(), tasks);
    }

    @Test
    void it_lists_exactly_the_operators_that_are_written_with_others() throws IOException {
        assertEquals(TrainingExpansions.names(), listAfter("Written with those first"));
    }
}
