package dev.octet.cli;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * One run of Octet inside the test's own JVM.
 *
 * @param out what it wrote to standard output
 * @param err what it wrote to standard error
 */
record CommandLine(ExitCode code, String out, String err) {
    static CommandLine run(String... words) {
        return run(TextStyle.PLAIN, words);
    }

    /** On a terminal, or what is taken for one. */
    static CommandLine run(TextStyle style, String... words) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        Screen screen = new Screen(
                new PrintStream(out, true, StandardCharsets.UTF_8),
                new PrintStream(err, true, StandardCharsets.UTF_8),
                style,
                style,
                0);
        ExitCode code = Octet.run(List.of(words), screen);
        return new CommandLine(code, out.toString(StandardCharsets.UTF_8), err.toString(StandardCharsets.UTF_8));
    }
}
