package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.commons.cli.Option;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CompletionCommandTest {
    @TempDir
    Path folder;

    private Path script(String shell) throws IOException {
        CommandLine run = CommandLine.run("completion", shell);
        assertEquals(ExitCode.OK, run.code(), run.err());
        return Files.writeString(folder.resolve("octet." + shell), run.out());
    }

    private static boolean isInstalled(String shell) {
        return Arrays.stream(System.getenv().getOrDefault("PATH", "").split(File.pathSeparator, -1))
                .anyMatch(p -> Files.isExecutable(Path.of(p, shell)));
    }

    private String ran(String... command) throws IOException {
        Path out = folder.resolve("out");
        Process process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(out.toFile())
                .start();
        try {
            assertTrue(process.waitFor(1, TimeUnit.MINUTES));
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        String printed = Files.readString(out, StandardCharsets.UTF_8);
        assertEquals(0, process.exitValue(), printed);
        return printed;
    }

    /** What bash offers for the last of the words typed. */
    private Set<String> offered(String typed) throws IOException {
        Assumptions.assumeTrue(isInstalled("bash"), "bash is not installed");
        List<String> words = Arrays.asList(typed.split(" ", -1));
        String line = words.stream().map(w -> "'" + w + "'").collect(Collectors.joining(" "));
        String printed = ran(
                "bash",
                "--norc",
                "-c",
                "set -u; . '" + script("bash") + "'; COMP_WORDS=(" + line + "); COMP_CWORD=" + (words.size() - 1)
                        + "; _octet; printf '%s\\n' ${COMPREPLY[@]+\"${COMPREPLY[@]}\"}");
        return printed.lines().filter(l -> !l.isEmpty()).collect(Collectors.toCollection(TreeSet::new));
    }

    @Test
    void bash_offers_every_verb() throws IOException {
        Set<String> expected =
                Octet.COMMANDS.stream().map(Command::name).collect(Collectors.toCollection(TreeSet::new));
        expected.addAll(List.of("--help", "--version"));
        assertEquals(expected, offered("octet "));
        assertEquals(Set.of("quantize", "quickstart"), offered("octet qu"));
    }

    @Test
    void bash_offers_every_option_of_every_verb() throws IOException {
        for (Command command : Octet.COMMANDS) {
            Set<String> expected = Flags.of(command).stream()
                    .map(o -> "--" + o.getLongOpt())
                    .collect(Collectors.toCollection(TreeSet::new));
            assertEquals(expected, offered("octet " + command.name() + " x --"), command.name());
        }
    }

    @ParameterizedTest
    @CsvSource({
        "octet convert m --target, 'compressed-tensors dcp deepspeed-universal fp8 gguf huggingface modelopt onnx'",
        "octet quantize m --kv-cache, 'fp8 fp8-per-head none'",
        "octet quantize m --attention, 'fp8 fp8-per-head int8 none'",
        "octet inspect --progress, 'json none plain'",
        "octet help q, 'quantize quickstart'",
        "octet completion, 'bash fish zsh'",
        "octet quantize --calibration, ''"
    })
    void bash_offers_the_values_of_an_option(String typed, String values) throws IOException {
        Set<String> expected = new TreeSet<>(Arrays.asList(values.split(" ", -1)));
        expected.remove("");
        assertEquals(expected, offered(typed.endsWith(" q") ? typed : typed + " "));
    }

    @ParameterizedTest
    @ValueSource(strings = {"bash", "zsh", "fish"})
    void a_shell_reads_its_script(String shell) throws IOException {
        Assumptions.assumeTrue(isInstalled(shell), shell + " is not installed");
        ran(shell, "-n", script(shell).toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"zsh", "fish"})
    void each_script_names_every_verb_and_option_and_closes_its_quotes(String shell) throws IOException {
        String script = Files.readString(script(shell));
        for (Command command : Octet.COMMANDS) {
            assertTrue(script.contains(command.name()), command.name());
            for (Option option : Flags.of(command)) {
                String name = shell.equals("fish") ? " -l " + option.getLongOpt() + " " : "--" + option.getLongOpt();
                assertTrue(script.contains(name), name);
            }
        }
        for (String line : script.split("\n", -1)) {
            String unescaped = line.startsWith("#") ? "" : line.replace(shell.equals("fish") ? "\\'" : "'\\''", "");
            assertEquals(0, unescaped.chars().filter(c -> c == '\'').count() % 2, line);
        }
    }

    @Test
    void an_unknown_shell_is_answered_with_those_there_are() {
        CommandLine run = CommandLine.run("completion", "fsh");
        assertEquals(ExitCode.USAGE, run.code());
        assertTrue(run.err().contains("did you mean fish"), run.err());
    }
}
