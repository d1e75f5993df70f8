package dev.octet.formats.file;

import dev.octet.formats.error.UnavailableException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Tries native code in a separate JVM, because failing native code ends its process. */
public final class NativeTrial {
    private static final System.Logger LOG = System.getLogger(NativeTrial.class.getName());

    /** The exit code of a process ended by a signal is this plus the signal's number. */
    private static final int SIGNALLED = 128;

    /** SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV; other signals come from outside. */
    private static final List<Integer> CRASHES = List.of(4, 5, 6, 7, 8, 11);

    /** On Windows, the exit code of a crash is the exception's number, whose two highest bits are set. */
    private static final int WINDOWS_EXCEPTION = 0xC0000000;

    private NativeTrial() {}

    /**
     * The end of a trial.
     *
     * @param exit exit code; negative after a timeout
     * @param output standard output
     * @param errors standard error
     */
    public record Ended(int exit, String output, String errors) {
        private static final int NOT_IN_TIME = -1;

        /** Whether native code ended the process. */
        public boolean crashed() {
            return CRASHES.contains(exit - SIGNALLED) || ((exit & WINDOWS_EXCEPTION) == WINDOWS_EXCEPTION && inTime());
        }

        /** Whether the process ended before the timeout. */
        public boolean inTime() {
            return exit != NOT_IN_TIME;
        }
    }

    /**
     * Runs the method {@code main} of a class with this Java and this class or module path.
     *
     * @param properties system properties of the process
     * @param input standard input
     * @return empty when no process can be started
     * @throws IOException when the output cannot be stored
     */
    public static Optional<Ended> run(Class<?> main, Map<String, String> properties, byte[] input, Duration limit)
            throws IOException {
        return run(main, List.of(), properties, input, limit);
    }

    /** As {@link #run(Class, Map, byte[], Duration)}, with additional JVM options after the default ones. */
    public static Optional<Ended> run(
            Class<?> main, List<String> options, Map<String, String> properties, byte[] input, Duration limit)
            throws IOException {
        Path output = Files.createTempFile("octet-trial", ".txt");
        Path errors = Files.createTempFile("octet-trial", ".txt");
        try {
            Process process;
            try {
                process = new ProcessBuilder(command(main, options, properties))
                        .redirectOutput(output.toFile())
                        .redirectError(errors.toFile())
                        .start();
            } catch (IOException e) {
                LOG.log(System.Logger.Level.DEBUG, "no process can be started", e);
                return Optional.empty();
            }
            int exit = feed(process, input, limit);
            return Optional.of(new Ended(exit, text(output), text(errors)));
        } finally {
            Files.deleteIfExists(output);
            Files.deleteIfExists(errors);
        }
    }

    /**
     * Ends the method {@code main} of a trial: prints the answer to standard output, or, if the library is unavailable, the reason to
     * standard error with exit code 1.
     */
    public static void answer(Supplier<String> answer) {
        try {
            System.out.print(answer.get());
        } catch (UnavailableException e) {
            System.err.println(e.what());
            System.exit(1);
        }
    }

    private static String text(Path file) throws IOException {
        return new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
    }

    private static int feed(Process process, byte[] input, Duration limit) {
        try {
            try (OutputStream in = process.getOutputStream()) {
                in.write(input);
            } catch (IOException e) {
                LOG.log(System.Logger.Level.DEBUG, "the process ended before it had read its input", e);
            }
            return process.waitFor(limit.toMillis(), TimeUnit.MILLISECONDS) ? process.exitValue() : Ended.NOT_IN_TIME;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Ended.NOT_IN_TIME;
        } finally {
            process.destroyForcibly();
        }
    }

    private static List<String> command(Class<?> main, List<String> options, Map<String, String> properties) {
        List<String> words = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-CreateCoredumpOnCrash",
                "-XX:+SuppressFatalErrorMessage",
                "--enable-native-access=ALL-UNNAMED"));
        words.addAll(options);
        properties.forEach((key, value) -> words.add("-D" + key + "=" + value));
        String module = main.getModule().getName();
        if (module == null) {
            words.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        } else {
            words.addAll(List.of(
                    "--enable-native-access=" + module,
                    "-p",
                    System.getProperty("jdk.module.path", ""),
                    "-m",
                    module + "/" + main.getName()));
        }
        return words;
    }
}
