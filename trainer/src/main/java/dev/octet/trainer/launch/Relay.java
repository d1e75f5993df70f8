package dev.octet.trainer.launch;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.TemporaryFolder;
import dev.octet.trainer.launch.Connection.Frame;
import dev.octet.trainer.launch.Connection.Kind;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.jspecify.annotations.Nullable;

/** Runs commands for the first relay: the daemon that MPI has on each machine, which starts this one's ranks. All ends when the first relay says so, or is gone. */
final class Relay {
    /** The script of a rank, in the folder of its relay. */
    static final String SCRIPT = "rank.sh";

    private Relay() {}

    /**
     * Serves until all is over.
     *
     * @return the exit code of the ranks
     * @throws UnavailableException when the first relay cannot be reached, refuses this one, or goes away
     */
    static int serve(Invitation invitation, RelayPlace place, RankCommand command, Duration patience)
            throws IOException, InterruptedException {
        try (Connection first = call(invitation, place, patience);
                TemporaryFolder folder = TemporaryFolder.create("relay")) {
            first.send(Kind.HELLO, "relay\n" + place.number() + "\n" + place.slots() + "\n" + host());
            Map<String, String> variables = variables(command, folder.path());
            // daemons of Open MPI 4 name their folders after the machine and the job: two on one machine would make the
            // same at once
            variables.put("OMPI_MCA_orte_tmpdir_base", folder.path().toString());
            BlockingQueue<Optional<Frame>> heard = hear(first);
            @Nullable OwnedProcess running = null;
            try {
                while (true) {
                    Frame frame = heard.take()
                            .orElseThrow(() -> new UnavailableException(
                                    "the first relay is gone, and with it mpirun",
                                    place.text() + "; the first is at " + invitation,
                                    "see what it printed last; octet train --resume goes on from the last checkpoint"));
                    switch (frame.kind()) {
                        case RUN -> {
                            end(running);
                            running = run(frame.text(), variables, first);
                        }
                        case STOP -> {
                            end(running);
                            running = null;
                        }
                        case DONE -> {
                            return frame.number();
                        }
                        case REFUSED ->
                            throw new UnavailableException(
                                    "the first relay refuses this one: " + frame.text(),
                                    place.text() + "; the first is at " + invitation,
                                    "give each machine a number of its own (torchrun: GROUP_RANK)");
                        case PULSE, HELLO, OUT, ERR, EXIT ->
                            throw new IOException("the first relay says something odd");
                    }
                }
            } finally {
                end(running);
            }
        }
    }

    private static void end(@Nullable OwnedProcess process) {
        if (process != null) {
            process.close();
        }
    }

    private static Connection call(Invitation invitation, RelayPlace place, Duration patience)
            throws InterruptedException {
        try {
            return Connection.call(invitation, patience);
        } catch (Connection.WrongSecretException e) {
            throw new UnavailableException(
                    "the first relay has another secret",
                    place.text() + "; the first is at " + invitation,
                    "set " + TorchrunRendezvous.SECRET + " to the same on each machine",
                    e);
        } catch (IOException e) {
            throw new UnavailableException(
                    "the first relay cannot be reached within " + patience.toSeconds() + " s: " + e.getMessage(),
                    place.text() + "; the first is at " + invitation,
                    "see what it printed; " + TorchrunRendezvous.PORT + " is where it listens, and "
                            + PlacedRanks.DEADLINE + " how many seconds to wait",
                    e);
        }
    }

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            return "a machine without a name";
        }
    }

    /** The environment of what it runs, with the script of a rank in a folder. */
    static Map<String, String> variables(RankCommand command, Path folder) throws IOException {
        Path script = Files.writeString(folder.resolve(SCRIPT), command.script());
        Map<String, String> variables = new HashMap<>(command.variables());
        variables.put(Mpirun.SCRIPT, script.toString());
        return variables;
    }

    /** Frames as they come, and an empty one at the end; who waits for them can be interrupted. */
    private static BlockingQueue<Optional<Frame>> hear(Connection first) {
        BlockingQueue<Optional<Frame>> heard = new LinkedBlockingQueue<>();
        Thread.ofVirtual().start(() -> {
            try {
                while (true) {
                    heard.add(Optional.of(first.receive()));
                }
            } catch (IOException e) {
                heard.add(Optional.empty());
            }
        });
        return heard;
    }

    private static OwnedProcess run(String command, Map<String, String> variables, Connection first)
            throws IOException {
        OwnedProcess process = OwnedProcess.start(
                List.of("sh", "-c", command),
                variables,
                new RankOutput(first.stream(Kind.OUT), first.stream(Kind.ERR)));
        Thread.ofVirtual().start(() -> {
            try {
                first.send(Kind.EXIT, String.valueOf(process.await()));
            } catch (IOException | InterruptedException e) {
                System.getLogger(Relay.class.getName())
                        .log(System.Logger.Level.DEBUG, "nobody waits for the end of a command", e);
            }
        });
        return process;
    }
}
