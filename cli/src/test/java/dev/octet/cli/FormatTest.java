package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.palantir.javaformat.java.Formatter;
import com.palantir.javaformat.java.FormatterException;
import com.palantir.javaformat.java.JavaFormatterOptions;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/**
 * Java files look as palantir-java-format writes them; {@code -Doctet.format=apply} rewrites those that do not. Why this is a test
 * and not a Maven plugin: docs/decisions/0001-formatting-is-a-test.md.
 */
@Execution(ExecutionMode.CONCURRENT)
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FormatTest {
    private static final Path ROOT = Path.of(System.getProperty("octet.root"));
    private static final List<String> MODULES =
            List.of("formats", "quant", "converter", "trainer", "pipeline", "spark", "cli", "bench");

    @Test
    void every_java_file_is_formatted() throws IOException {
        boolean apply = System.getProperty("octet.format", "check").equals("apply");
        List<Path> different = javaFiles().parallelStream()
                .filter(file -> differs(file, apply))
                .map(ROOT::relativize)
                .toList();
        assertEquals(
                List.of(),
                apply ? List.of() : different,
                "not formatted; mend with: mvn -pl cli -am test -Dtest=FormatTest"
                        + " -Dsurefire.failIfNoSpecifiedTests=false -Doctet.format=apply");
    }

    /** Nothing says that a formatter may serve several threads, so each file has its own. */
    private static boolean differs(Path file, boolean apply) {
        JavaFormatterOptions options = JavaFormatterOptions.builder()
                .style(JavaFormatterOptions.Style.PALANTIR)
                .build();
        try {
            String text = Files.readString(file);
            String formatted = Formatter.createFormatter(options).formatSourceAndFixImports(text);
            if (apply && !formatted.equals(text)) {
                Files.writeString(file, formatted);
            }
            return !formatted.equals(text);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (FormatterException e) {
            throw new AssertionError(file + " is no Java that the formatter reads", e);
        }
    }

    private static List<Path> javaFiles() throws IOException {
        List<Path> found = new ArrayList<>();
        for (String module : MODULES) {
            Path sources = ROOT.resolve(module).resolve("src");
            if (Files.isDirectory(sources)) {
                try (Stream<Path> files = Files.walk(sources)) {
                    files.filter(f -> f.toString().endsWith(".java")).sorted().forEach(found::add);
                }
            }
        }
        return found;
    }
}
