package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The real {@code ./octet}, as a user starts it. Runs after the jar is made. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OctetLauncherTest {
    private static final Path ROOT =
            Path.of(System.getProperty("octet.root")).toAbsolutePath().normalize();

    @TempDir
    Path folder;

    private record Ended(int code, String out, String err) {}

    private Ended octet(String... words) throws IOException, InterruptedException {
        return start(ROOT.resolve("octet"), words);
    }

    private Ended start(Path launcher, String... words) throws IOException, InterruptedException {
        return start(Map.of(), launcher, words);
    }

    private Ended start(Map<String, String> environment, Path launcher, String... words)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(launcher.toString()));
        command.addAll(List.of(words));
        File out = folder.resolve("out.txt").toFile();
        File err = folder.resolve("err.txt").toFile();
        ProcessBuilder builder = new ProcessBuilder(command).redirectOutput(out).redirectError(err);
        builder.environment().put("JAVA25_HOME", System.getProperty("java.home"));
        builder.environment().keySet().removeIf(k -> k.startsWith("JAVA_TOOL") || k.startsWith("OCTET_"));
        builder.environment().put("OCTET_BUILD", "off"); // Maven is at it already
        builder.environment().putAll(environment);
        Process process = builder.start();
        assertTrue(process.waitFor(2, TimeUnit.MINUTES), "the launcher hangs");
        return new Ended(process.exitValue(), Files.readString(out.toPath()), Files.readString(err.toPath()));
    }

    @Test
    void the_version_is_printed() throws IOException, InterruptedException {
        Ended run = octet("--version");
        assertEquals(0, run.code(), run.err());
        assertTrue(run.out().startsWith("octet "), run.out());
    }

    @Test
    void a_link_to_the_launcher_works_too() throws IOException, InterruptedException {
        Path link = Files.createSymbolicLink(folder.resolve("linked"), ROOT.resolve("octet"));
        assertEquals(0, start(link, "--version").code());
    }

    @Test
    void a_name_with_any_letters_is_found_in_any_locale() throws IOException, InterruptedException {
        Path file = Files.copy(
                TinyBert.MODEL,
                Files.createDirectory(folder.resolve("\u00fcber \u6a21\u578b")).resolve("m.onnx"));
        for (String locale : List.of("C", "POSIX", "xx_XX.UTF-8", "C.UTF-8")) {
            Ended run = start(Map.of("LC_ALL", locale), ROOT.resolve("octet"), "inspect", file.toString());
            assertEquals(0, run.code(), locale + ": " + run.err());
            assertTrue(run.out().contains(file.toString()), locale + ": " + run.out());
        }
    }

    @Test
    void a_wrong_option_exits_2_with_the_nearest_name() throws IOException, InterruptedException {
        Ended run = octet("inspect", "model.onnx", "--jsonn");
        assertEquals(2, run.code());
        assertTrue(run.err().contains("did you mean --json?"), run.err());
    }

    @Test
    void lines_are_as_long_as_a_terminal_is_wide_and_have_no_colours_where_they_are_not_wanted()
            throws IOException, InterruptedException {
        Path script = Path.of("/usr/bin/script"); // of util-linux: runs a command on a terminal of its own
        Assumptions.assumeTrue(Files.isExecutable(script), "util-linux is not installed");
        String command = "'" + ROOT.resolve("octet") + "' quantize --help";
        octet("--version"); // makes the cache, and says so on standard error, which is on that terminal too
        Ended narrow =
                start(Map.of("COLUMNS", "60", "TERM", "xterm", "NO_COLOR", ""), script, "-qec", command, "/dev/null");
        assertTrue(narrow.out().contains("\u001b[1moptions:\u001b[0m"), narrow.out());
        List<String> lines =
                narrow.out().replaceAll("\u001b\\[[0-9;]*m", "").lines().toList();
        assertTrue(lines.stream().allMatch(l -> l.length() <= 60), narrow.out());
        assertTrue(lines.stream().anyMatch(l -> l.length() > 50), narrow.out());
        Ended plain =
                start(Map.of("COLUMNS", "60", "TERM", "xterm", "NO_COLOR", "1"), script, "-qec", command, "/dev/null");
        assertEquals(
                String.join("\n", lines), String.join("\n", plain.out().lines().toList()));
        assertFalse(octet("quantize", "--help").out().contains("\u001b"));
    }

    @Test
    void a_missing_file_exits_4_with_three_lines() throws IOException, InterruptedException {
        Ended run = octet("inspect", folder.resolve("missing.onnx").toString());
        assertEquals(4, run.code());
        assertEquals(3, run.err().lines().count(), run.err());
        assertEquals("", run.out());
    }
}
