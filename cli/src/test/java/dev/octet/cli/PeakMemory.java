package dev.octet.cli;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/** Runs Octet and prints what the system knows of the memory it took: a program of its own for {@link KilledRunTest}. */
public final class PeakMemory {
    private PeakMemory() {}

    /** Arguments: those of Octet. */
    public static void main(String[] args) throws IOException {
        PrintStream err = new PrintStream(System.err, true, StandardCharsets.UTF_8);
        ExitCode code = Octet.run(Arrays.asList(args), new Screen(System.out, err, false, 0));
        System.out.println();
        Files.readAllLines(Path.of("/proc/self/status")).forEach(System.out::println);
        System.exit(code.number());
    }
}
