package dev.octet.trainer.launch;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.TemporaryFolder;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.CodeSource;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * Ranks of processes that somebody else has placed, as torchrun or a barrier stage of Spark does: each process that is a relay runs ranks on its machine for the
 * {@code mpirun} that the first one starts. Alone on one machine it starts {@code mpirun} and is done.
 */
public final class PlacedRanks {
    /** How long relays wait for each other, in seconds. */
    public static final String DEADLINE = "OCTET_RELAY_DEADLINE";

    private static final Duration USUAL_DEADLINE = Duration.ofMinutes(2);

    /** How often to see whether all relays are still here. */
    private static final Duration LOOK = Duration.ofMillis(100);

    /** How long after mpirun's end a relay may turn out to have been why. */
    private static final int LATE_LOOKS = 10;

    private PlacedRanks() {}

    /**
     * Runs the ranks, or this relay's part of them, until they have ended.
     *
     * @param command of each rank here
     * @return the exit code of mpirun, on each relay
     * @throws OctetException when there is no mpirun, or a relay does not come or is gone
     * @throws IOException when a folder for temporary files cannot be written
     * @throws InterruptedException when this thread is interrupted; the ranks are ended
     */
    public static int run(Rendezvous rendezvous, RankCommand command, RankOutput output)
            throws IOException, InterruptedException {
        RelayPlace place = rendezvous.place();
        if (place.isAlone()) {
            return here(place.ranks(), command, output);
        }
        Duration patience = patience(command.variables());
        return place.isFirst()
                ? lead(rendezvous, command, output, patience)
                : Relay.serve(rendezvous.await(), place, command, patience);
    }

    private static Duration patience(Map<String, String> variables) {
        String text = variables.getOrDefault(DEADLINE, String.valueOf(USUAL_DEADLINE.toSeconds()));
        if (!text.matches("[1-9]\\d{0,8}")) {
            throw new InvalidOptionException(
                    "'" + text + "' is no number of seconds",
                    "environment variable " + DEADLINE,
                    "unset it, or set it to a whole number from 1 on");
        }
        return Duration.ofSeconds(Integer.parseInt(text));
    }

    private static int here(int ranks, RankCommand command, RankOutput output)
            throws IOException, InterruptedException {
        Mpirun mpirun = Mpirun.find(command.variables());
        try (TemporaryFolder folder = TemporaryFolder.create("ranks")) {
            Map<String, String> variables = Relay.variables(command, folder.path());
            variables.putAll(mpirun.variables());
            try (OwnedProcess process = OwnedProcess.start(mpirun.here(ranks), variables, output)) {
                return process.await();
            }
        }
    }

    private static int lead(Rendezvous rendezvous, RankCommand command, RankOutput output, Duration patience)
            throws IOException, InterruptedException {
        RelayPlace place = rendezvous.place();
        Mpirun mpirun = Mpirun.find(command.variables());
        int code = 1;
        try (Switchboard board = Switchboard.open(rendezvous.door(), place, line -> say(output, line));
                TemporaryFolder folder = TemporaryFolder.create("ranks")) {
            Invitation invitation = rendezvous.invite(board.port());
            board.begin(invitation);
            CompletableFuture<Integer> own = new CompletableFuture<>();
            Thread relay = Thread.ofPlatform().daemon().name("octet-relay").start(() -> {
                try {
                    own.complete(Relay.serve(invitation, place, command, patience));
                } catch (IOException | InterruptedException | RuntimeException e) {
                    own.completeExceptionally(e);
                }
            });
            try {
                List<Integer> slots = board.await(patience);
                say(output, "note  ranks are started by mpirun (" + mpirun.version() + "): " + board.names());
                Path agent = agent(folder.path(), invitation);
                Map<String, String> variables = new HashMap<>(command.variables());
                variables.putAll(mpirun.variables(agent));
                try (OwnedProcess process =
                        OwnedProcess.start(mpirun.on(slots, agent, invitation.host()), variables, output)) {
                    code = await(process, board);
                }
                return code;
            } finally {
                board.end(code);
                relay.interrupt();
                failure(own).ifPresent(why -> say(output, "relay 0 ended early: " + why));
            }
        }
    }

    private static Optional<String> failure(CompletableFuture<Integer> own) {
        try {
            int _ = own.get();
            return Optional.empty();
        } catch (ExecutionException e) {
            return Optional.ofNullable(e.getCause())
                    .filter(c -> !(c instanceof InterruptedException))
                    .map(Throwable::getMessage);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Optional.empty();
        }
    }

    private static int await(OwnedProcess process, Switchboard board) throws InterruptedException {
        while (!process.awaitEnd(LOOK) && board.lost().isEmpty()) {}
        if (board.lost().isPresent()) {
            process.end();
        }
        int code = process.await();
        for (int i = 0; code != 0 && board.lost().isEmpty() && i < LATE_LOOKS; i++) {
            Thread.sleep(LOOK);
        }
        Optional<String> lost = board.lost();
        if (code != 0 && lost.isPresent()) {
            throw new UnavailableException(
                    lost.get() + " is gone, and ends the others",
                    "the processes that run ranks",
                    "see what ended it: its machine, its memory or a signal; octet train --resume goes on from the"
                            + " last checkpoint");
        }
        return code;
    }

    /** The program that mpirun asks in place of ssh. Where it calls, and with which secret, lies beside it, in a folder of this user alone. */
    private static Path agent(Path folder, Invitation invitation) throws IOException {
        if (folder.toString().matches(".*[\\s:].*")) { // mpirun takes a path with arguments, or several
            throw new UnavailableException(
                    "mpirun cannot start a program in a folder whose name has blanks or colons",
                    folder.toString(),
                    "set TMPDIR, or -Djava.io.tmpdir, to another folder for temporary files");
        }
        Path told = folder.resolve("invitation");
        Agent.write(invitation, told);
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Path agent = Files.writeString(
                folder.resolve("agent"),
                "#!/bin/sh\nexec " + RankCommand.quoted(java)
                        + " -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx64m -cp "
                        + RankCommand.quoted(ownClasses().toString()) + " " + Agent.class.getName() + " "
                        + RankCommand.quoted(told.toString()) + " \"$@\"\n");
        if (!agent.toFile().setExecutable(true, true)) {
            throw new IOException("a file cannot be made executable: " + agent);
        }
        return agent;
    }

    private static Path ownClasses() {
        CodeSource source = PlacedRanks.class.getProtectionDomain().getCodeSource();
        try {
            return Path.of(source.getLocation().toURI());
        } catch (URISyntaxException | RuntimeException e) {
            throw new UnavailableException(
                    "the jar that relays are started from is not known",
                    String.valueOf(source),
                    "load Octet from jars in the file system",
                    e);
        }
    }

    private static void say(RankOutput output, String line) {
        try {
            output.err().write(("octet: " + line + "\n").getBytes(StandardCharsets.UTF_8));
            output.err().flush();
        } catch (IOException e) {
            System.getLogger(PlacedRanks.class.getName())
                    .log(System.Logger.Level.DEBUG, "output is no longer wanted", e);
        }
    }
}
