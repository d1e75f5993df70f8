package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
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
    void a_missing_file_exits_4_with_three_lines() throws IOException, InterruptedException {
        Ended run = octet("inspect", folder.resolve("missing.onnx").toString());
        assertEquals(4, run.code());
        assertEquals(3, run.err().lines().count(), run.err());
        assertEquals("", run.out());
    }
}
