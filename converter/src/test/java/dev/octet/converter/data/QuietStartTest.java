package dev.octet.converter.data;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A program that uses Octet as a library and has no logging library of its own. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QuietStartTest {
    private static final Path WORDS = Path.of(System.getProperty("octet.testdata"), "tokenizer", "words.json");

    @TempDir
    Path folder;

    /** The program. */
    public static final class Program {
        private Program() {}

        /** Opens a tokenizer. */
        public static void main(String[] args) throws IOException {
            try (Tokenizer tokenizer = Tokenizer.unpadded(Path.of(args[0]), OptionalInt.empty())) {
                System.out.println("opened " + tokenizer.getClass().getSimpleName());
            }
        }
    }

    @Test
    void the_tokenizer_prints_nothing_when_it_is_loaded() throws IOException, InterruptedException {
        String classPath = Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator, -1))
                .filter(p -> !p.matches(".*(slf4j-(nop|simple|jdk14)|logback).*"))
                .collect(Collectors.joining(File.pathSeparator));
        Path out = folder.resolve("out");
        Path err = folder.resolve("err");
        List<String> command = List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--enable-native-access=ALL-UNNAMED",
                "-Doctet.cache=" + folder,
                "-cp",
                classPath,
                Program.class.getName(),
                WORDS.toString());
        ProcessBuilder program =
                new ProcessBuilder(command).redirectOutput(out.toFile()).redirectError(err.toFile());
        program.environment().remove("JAVA_TOOL_OPTIONS"); // which the JVM reports
        Process process = program.start();
        assertTrue(process.waitFor(1, TimeUnit.MINUTES));
        assertEquals("", Files.readString(err));
        assertEquals("opened Tokenizer\n", Files.readString(out));
    }
}
