package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** What CONTRIBUTING.md names in its table of what can be added: files that match its patterns, classes, their lists, pages and scripts. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ContributingTest {
    private static final Path ROOT = Path.of(System.getProperty("octet.testdata"))
            .toAbsolutePath()
            .normalize()
            .resolveSibling("");

    private static final Pattern QUOTED = Pattern.compile("`([^`]+)`");
    private static final Pattern CLASS = Pattern.compile("[A-Z]\\w*");
    private static final Pattern MEMBER = Pattern.compile("([A-Z]\\w*)\\.(\\w+)");

    /** Words of the language and commands, which are not names of files. */
    private static final List<String> WORDS = List.of("permits", "octet verify");

    @TestFactory
    Stream<DynamicTest> each_row_names_what_is_there() throws IOException {
        List<String> sources = sources();
        List<String> rows = Files.readAllLines(ROOT.resolve("CONTRIBUTING.md")).stream()
                .filter(l -> l.startsWith("| ") && !l.startsWith("| one more"))
                .toList();
        assertFalse(rows.isEmpty());
        return rows.stream()
                .map(row -> DynamicTest.dynamicTest(
                        row.substring(2, row.indexOf('|', 2)).strip(), () -> {
                            for (String name : QUOTED.matcher(row)
                                    .results()
                                    .map(m -> m.group(1))
                                    .toList()) {
                                assertTrue(WORDS.contains(name) || isThere(name, sources), name);
                            }
                        }));
    }

    /** Java files, relative to the root, with slashes. */
    private static List<String> sources() throws IOException {
        try (Stream<Path> modules = Files.list(ROOT)) {
            List<String> all = new ArrayList<>();
            for (Path module : modules.filter(m -> Files.exists(m.resolve("src/main/java")))
                    .toList()) {
                try (Stream<Path> files = Files.walk(module.resolve("src"))) {
                    files.map(f -> ROOT.relativize(f).toString().replace('\\', '/'))
                            .filter(f -> f.endsWith(".java"))
                            .forEach(all::add);
                }
            }
            return all;
        }
    }

    private static boolean isThere(String name, List<String> sources) throws IOException {
        if (CLASS.matcher(name).matches()) {
            return sources.stream().anyMatch(s -> s.endsWith("/" + name + ".java"));
        }
        Matcher member = MEMBER.matcher(name);
        if (member.matches()) {
            return sources.stream()
                    .filter(s -> s.endsWith("/" + member.group(1) + ".java"))
                    .anyMatch(s -> declares(s, member.group(2)));
        }
        return name.contains("<") ? isPattern(name, sources) : Files.exists(ROOT.resolve(name));
    }

    /** Whether a file declares a constant, maybe with its value in the next lines. */
    private static boolean declares(String file, String constant) {
        try {
            return Pattern.compile("static final [^=;]*\\b" + constant + "\\s*=")
                    .matcher(Files.readString(ROOT.resolve(file)))
                    .find();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Whether some file matches {@code module/room/<name>/<Name>Suffix}, each part in angle brackets being any word. */
    private static boolean isPattern(String pattern, List<String> sources) {
        String module = pattern.substring(0, pattern.indexOf('/'));
        String any = pattern.replaceAll("<[a-z]+>", "[a-z0-9]+").replaceAll("<[A-Z][a-z]*>", "[A-Z][A-Za-z0-9]*");
        Pattern file = Pattern.compile(module + "/src/main/java/dev/octet/" + any + "\\.java");
        return sources.stream().anyMatch(s -> file.matcher(s).matches());
    }
}
