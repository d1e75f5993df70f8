package dev.octet.cli;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.collective.RankEnvironment;
import dev.octet.trainer.collective.RankEnvironment.Launcher;
import dev.octet.trainer.launch.PlacedRanks;
import dev.octet.trainer.launch.RankCommand;
import dev.octet.trainer.launch.RankOutput;
import dev.octet.trainer.launch.TorchrunRendezvous;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The ranks of a launcher that has no MPI: other processes, with the same command line, which this one starts. */
final class StartedRanks {
    /** Larger codes say by which signal a process was ended. */
    private static final int SIGNALLED = 128;

    private StartedRanks() {}

    /**
     * Starts the ranks and waits for their end; of several processes on a machine, one does it for all.
     *
     * @return empty where this process is a rank itself, or alone
     * @throws dev.octet.formats.error.OctetException when they cannot be started
     * @throws IOException when a folder for temporary files cannot be written
     */
    static Optional<ExitCode> run(Arguments arguments, Screen screen) throws IOException {
        Map<String, String> variables = System.getenv();
        if (RankEnvironment.of(variables)
                .filter(r -> r.launcher() == Launcher.TORCHRUN)
                .isEmpty()) {
            return Optional.empty();
        }
        TorchrunRendezvous processes = TorchrunRendezvous.of(variables);
        if (!processes.isRelay()) {
            return Optional.of(ExitCode.OK);
        }
        try {
            int code = PlacedRanks.run(
                    processes, RankCommand.of(again(arguments), variables), new RankOutput(screen.out(), screen.err()));
            return Optional.of(ended(code));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new UnavailableException(
                    "the ranks were ended", "octet train", "octet train --resume goes on from the last checkpoint", e);
        }
    }

    /** Octet's own codes are passed on; another one is that of a rank which was killed, or of mpirun. */
    private static ExitCode ended(int code) {
        return Arrays.stream(ExitCode.values())
                .filter(c -> c.number() == code)
                .findFirst()
                .orElseThrow(() -> new UnavailableException(
                        "the ranks ended with " + code
                                + (code > SIGNALLED ? ", which is signal " + (code - SIGNALLED) : ""),
                        "mpirun, whose message is above",
                        "see which rank it names; octet train --resume goes on from the last checkpoint"));
    }

    /** This command line once more: by the launcher, which knows its own Java, or else by the Java that runs here. */
    private static List<String> again(Arguments arguments) throws IOException {
        List<String> words = new ArrayList<>(List.of(arguments.verb()));
        words.addAll(arguments.words());
        List<String> command = new ArrayList<>();
        String home = System.getProperty("octet.home", "");
        if (home.isEmpty()) {
            command.addAll(java(words));
        } else {
            Path packed = Path.of(home, "bin", "octet");
            command.add((Files.isExecutable(packed) ? packed : Path.of(home, "octet")).toString());
        }
        command.addAll(words);
        return command;
    }

    /** The words of this JVM before those of Octet, as Linux keeps them. */
    private static List<String> java(List<String> words) throws IOException {
        Path line = Path.of("/proc/self/cmdline");
        if (Files.isReadable(line)) {
            List<String> all = List.of(Files.readString(line).split("\0", -1));
            int begin = all.size() - 1 - words.size(); // an empty word is behind the last
            if (begin > 1 && all.subList(begin, all.size() - 1).equals(words)) {
                List<String> java = new ArrayList<>(all.subList(1, begin));
                java.addFirst(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString());
                return java;
            }
        }
        throw new UnavailableException(
                "the command line of this Java, with which ranks are started, is not known",
                line.toString(),
                "start octet train with the launcher of Octet");
    }
}
