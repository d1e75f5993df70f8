package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The launchers of Unix and Windows and the files both read, without starting them: {@link OctetLauncherTest} starts one. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LauncherFilesTest {
    private static final Path ROOT =
            Path.of(System.getProperty("octet.root")).toAbsolutePath().normalize();
    private static final Path FOLDER = ROOT.resolve("cli/src/main/launcher");

    /** Variables of octet.cmd that hold paths. */
    private static final Pattern PATHS =
            Pattern.compile("%(home|jdk|launcher|target|jar|cache|log|maven|TEMP|ProgramFiles|USERPROFILE)%|%~1");

    /** The files of arguments of each verb: its usual one, and one for an option where there is such. */
    private static Map<String, List<String>> verbs() throws IOException {
        Map<String, List<String>> verbs = new HashMap<>();
        for (String line : Files.readAllLines(FOLDER.resolve("verbs"))) {
            if (!line.startsWith("#")) {
                String[] words = line.split(" +", -1);
                assertTrue(words.length == 2 || (words.length == 4 && words[2].startsWith("--")), line);
                List<String> files = words.length == 2 ? List.of(words[1]) : List.of(words[1], words[3]);
                assertEquals(null, verbs.put(words[0], files), line);
            }
        }
        return verbs;
    }

    @Test
    void every_verb_has_a_file_of_arguments() throws IOException {
        assertEquals(Octet.COMMANDS.stream().map(Command::name).collect(Collectors.toSet()), verbs().keySet());
        verbs().values()
                .forEach(files ->
                        files.forEach(file -> assertTrue(Files.isRegularFile(FOLDER.resolve(file + ".args")), file)));
    }

    @Test
    void no_file_of_arguments_is_left_over() throws IOException {
        Set<String> read = new HashSet<>(List.of("common", "short"));
        verbs().values().forEach(read::addAll);
        try (Stream<Path> files = Files.list(FOLDER)) {
            assertEquals(
                    read,
                    files.map(f -> f.getFileName().toString())
                            .filter(n -> n.endsWith(".args"))
                            .map(n -> n.replace(".args", ""))
                            .collect(Collectors.toSet()));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"octet", "octet.cmd"})
    void a_launcher_takes_its_verbs_and_their_arguments_from_the_files_alone(String name) throws IOException {
        String launcher = Files.readString(ROOT.resolve(name));
        for (String read : List.of("verbs\"", "common.args", ".args\"")) {
            assertTrue(launcher.contains(read), read);
        }
        for (String own : List.of("--add-modules", "--enable-native-access", "-XX:+Use", "-Xms", "-Xmn", "-Xmx")) {
            assertFalse(launcher.contains(own), own);
        }
        for (String verb : verbs().keySet()) {
            assertFalse(
                    Pattern.compile("[\"| ]" + verb + "[\"|)]")
                            .matcher(launcher)
                            .find(),
                    verb);
        }
    }

    @Test
    void the_launcher_of_windows_has_the_line_ends_of_windows() throws IOException {
        String launcher = Files.readString(ROOT.resolve("octet.cmd"));
        assertEquals(
                0, launcher.replace("\r\n", "").chars().filter(c -> c < ' ').count());
        assertTrue(launcher.endsWith("\r\n"));
        assertTrue(launcher.chars().allMatch(c -> c < 0x7F), "cmd.exe reads another character set on each machine");
    }

    @Test
    void what_bash_reads_has_the_line_ends_of_unix() throws IOException {
        List<Path> files = new ArrayList<>(List.of(ROOT.resolve("octet")));
        try (Stream<Path> more = Files.list(FOLDER)) {
            more.forEach(files::add);
        }
        for (Path file : files) {
            assertFalse(Files.readString(file).contains("\r"), file.toString());
        }
    }

    @Test
    void paths_stand_in_quotes_on_windows() throws IOException {
        for (String line : Files.readAllLines(ROOT.resolve("octet.cmd"))) {
            Matcher path = PATHS.matcher(line);
            while (!line.startsWith(">&2") && path.find()) {
                long quotes = line.substring(0, path.start())
                        .chars()
                        .filter(c -> c == '"')
                        .count();
                assertEquals(1, quotes % 2, line);
            }
        }
    }
}
