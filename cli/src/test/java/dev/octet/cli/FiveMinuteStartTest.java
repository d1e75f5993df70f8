package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The first section of docs/training.md, as a reader would type it. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FiveMinuteStartTest {
    private static final Path ROOT = Objects.requireNonNull(Path.of(System.getProperty("octet.testdata"))
            .toAbsolutePath()
            .normalize()
            .getParent());

    @TempDir
    Path folder;

    /** The first block of code in this language. */
    private static List<String> block(String language) throws IOException {
        return Files.readAllLines(ROOT.resolve("docs/training.md")).stream()
                .dropWhile(l -> !l.equals("```" + language))
                .skip(1)
                .takeWhile(l -> !l.equals("```"))
                .toList();
    }

    /** Fewer steps than the page has; inputs from the repository, outputs into the test's folder. */
    private String[] words(String line) {
        String command = line.replaceAll("\\s+#.*", "").replace("--steps 30", "--steps 2");
        List<String> words = new ArrayList<>(Arrays.asList(command.split("\\s+")));
        words.removeFirst();
        words.replaceAll(w -> w.startsWith("testdata/")
                ? ROOT.resolve(w).toString()
                : w.matches("runs/.*|first.*\\.onnx|train\\.yaml")
                        ? folder.resolve(w).toString()
                        : w);
        return words.toArray(String[]::new);
    }

    @Test
    void the_commands_of_the_page_train_resume_export_and_prove() throws IOException {
        List<String> yaml = new ArrayList<>(block("yaml"));
        yaml.replaceAll(l -> l.replace("testdata/", ROOT.resolve("testdata") + "/")
                .replace("steps: 60", "steps: 4")
                .replace("warmup: 5", "warmup: 1"));
        Files.write(folder.resolve("train.yaml"), yaml);
        List<String> commands = block("sh");
        assertEquals(4, commands.size());
        String last = "";
        for (String command : commands) {
            CommandLine line = CommandLine.run(words(command));
            assertEquals(ExitCode.OK, line.code(), () -> command + "\n" + line.err());
            last = line.out();
        }
        assertTrue(last.contains("passed"), last);
        assertTrue(Files.exists(folder.resolve("first.fp8.onnx")));
    }
}
