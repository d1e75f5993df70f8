package dev.octet.trainer.launch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.collective.RankChild;
import dev.octet.trainer.collective.RankThreads;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Ranks that relays run, which to mpirun are machines; with the launchers of Open MPI and MPICH where they are installed. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PlacedRanksTest {
    /** A rank says which process it is, and stays. */
    private static final String STAYING = "echo \"rank $OMPI_COMM_WORLD_RANK$PMI_RANK is $$\"; exec sleep 300";

    private static final Duration DEADLINE = Duration.ofSeconds(30);

    @TempDir
    Path folder;

    /** A launcher, as Debian and others call it beside others. */
    enum Launcher {
        OPEN_MPI("/usr/bin/mpirun.openmpi"),
        MPICH("/usr/bin/mpirun.mpich");

        private final String program;

        Launcher(String program) {
            this.program = program;
        }

        private Map<String, String> variables() {
            assumeTrue(Files.isExecutable(Path.of(program)), program + " is not installed");
            Map<String, String> variables = new HashMap<>(System.getenv());
            variables.put("OCTET_MPIRUN", program);
            return variables;
        }
    }

    /** All that ranks print. */
    private final ByteArrayOutputStream printed = new ByteArrayOutputStream();

    private String printed() {
        return printed.toString(StandardCharsets.UTF_8);
    }

    private CompletableFuture<Integer> start(RelayPlace place, Invitation invitation, RankCommand command) {
        CompletableFuture<Integer> code = new CompletableFuture<>();
        Thread relay = Thread.ofPlatform().daemon().start(() -> {
            try {
                code.complete(PlacedRanks.run(
                        new FixedRendezvous(place, invitation), command, new RankOutput(printed, printed)));
            } catch (IOException | InterruptedException | RuntimeException e) {
                code.completeExceptionally(e);
            }
        });
        relays.add(relay);
        return code;
    }

    private final List<Thread> relays = new ArrayList<>();

    private static RankCommand child(Launcher launcher, String word) {
        return RankCommand.of(
                List.of(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-XX:TieredStopAtLevel=1",
                        "--enable-native-access=ALL-UNNAMED",
                        "-cp",
                        System.getProperty("java.class.path"),
                        RankChild.class.getName(),
                        word),
                launcher.variables());
    }

    private static RankCommand shell(Launcher launcher, String script) {
        return RankCommand.of(List.of("sh", "-c", script), launcher.variables());
    }

    private static int ended(CompletableFuture<Integer> code) throws Exception {
        return code.get(DEADLINE.toSeconds(), TimeUnit.SECONDS);
    }

    private static <T extends Throwable> T failure(Class<T> kind, CompletableFuture<Integer> code) {
        return assertInstanceOf(
                kind, assertThrows(ExecutionException.class, () -> ended(code)).getCause());
    }

    /** The process of a rank, once it has said so. */
    private ProcessHandle process(int rank) throws InterruptedException {
        String begin = "rank " + rank + " is ";
        long start = System.nanoTime();
        while (System.nanoTime() - start < DEADLINE.toNanos()) {
            var pid = printed().lines().filter(l -> l.startsWith(begin)).findFirst();
            if (pid.isPresent()) {
                return ProcessHandle.of(Long.parseLong(pid.get().substring(begin.length())))
                        .orElseThrow();
            }
            Thread.sleep(20);
        }
        throw new AssertionError("rank " + rank + " has not begun: " + printed());
    }

    private static void requireEnd(ProcessHandle process) throws Exception {
        assertTrue(
                process.onExit()
                        .orTimeout(15, TimeUnit.SECONDS)
                        .handle((_, late) -> late == null)
                        .get(),
                "the process of a rank ended");
    }

    @ParameterizedTest
    @EnumSource
    void ranks_of_relays_join_and_compute_what_threads_do(Launcher launcher) throws Exception {
        Invitation invitation = FixedRendezvous.somewhere();
        RankCommand command = child(launcher, "calls");
        CompletableFuture<Integer> first = start(new RelayPlace(0, 2, 2, 3), invitation, command);
        CompletableFuture<Integer> second = start(new RelayPlace(1, 2, 1, 3), invitation, command);
        String expected =
                RankThreads.run(3, Duration.ofSeconds(30), RankChild::digest).getFirst();
        assertEquals(0, first.get(60, TimeUnit.SECONDS), printed());
        assertEquals(0, ended(second), printed());
        for (int r = 0; r < 3; r++) {
            String said = "rank " + r + " of 3 by ";
            assertTrue(printed().lines().anyMatch(l -> l.startsWith(said) && l.endsWith(": " + expected)), printed());
        }
        assertTrue(printed().contains("octet-0 is "), printed());
        assertTrue(printed().lines().anyMatch(l -> l.matches(".*octet-1 is \\S+ with rank 2")), printed());
    }

    @ParameterizedTest
    @EnumSource
    void a_relay_that_is_alone_has_mpirun_start_its_ranks_without_a_network_of_its_own(Launcher launcher)
            throws Exception {
        String script = "echo \"$OMPI_COMM_WORLD_RANK$PMI_RANK of $OMPI_COMM_WORLD_SIZE$PMI_SIZE, $A, $LOCAL_RANK\"";
        // the first that ends with an error has mpirun end the others: none does before all have spoken
        String wait = "; : > \"$D/$OMPI_COMM_WORLD_RANK$PMI_RANK\""
                + "; while [ $(ls \"$D\" | wc -l) -lt 3 ]; do sleep 0.05; done; sleep 0.5";
        Map<String, String> variables = launcher.variables();
        Path spoken = Files.createDirectory(folder.resolve("spoken"));
        variables.putAll(Map.of("A", "it's here", "D", spoken.toString(), "LOCAL_RANK", "0", "SLURM_PROCID", "0"));
        CompletableFuture<Integer> code = start(
                new RelayPlace(0, 1, 3, 3),
                new Invitation("nowhere", -1, ""),
                RankCommand.of(List.of("sh", "-c", script + wait + "; exit 3"), variables));
        assertEquals(3, ended(code), printed());
        for (int r = 0; r < 3; r++) {
            String said = r + " of 3, it's here, ";
            assertTrue(printed().lines().anyMatch(said::equals), printed());
        }
    }

    @ParameterizedTest
    @EnumSource
    void a_rank_that_is_killed_ends_the_others_and_all_relays(Launcher launcher) throws Exception {
        Invitation invitation = FixedRendezvous.somewhere();
        RankCommand command = shell(launcher, STAYING);
        CompletableFuture<Integer> first = start(new RelayPlace(0, 2, 1, 2), invitation, command);
        CompletableFuture<Integer> second = start(new RelayPlace(1, 2, 1, 2), invitation, command);
        ProcessHandle other = process(0);
        assertTrue(process(1).destroyForcibly());
        int code = ended(first);
        assertNotEquals(0, code, printed());
        assertEquals(code, ended(second));
        requireEnd(other);
        String whose = launcher == Launcher.OPEN_MPI ? "process rank 1 " : "octet-1";
        assertTrue(printed().contains(whose), printed());
    }

    @ParameterizedTest
    @EnumSource
    void a_relay_that_is_killed_ends_its_ranks_and_all_others_and_is_named(Launcher launcher) throws Exception {
        Invitation invitation = FixedRendezvous.somewhere();
        CompletableFuture<Integer> first = start(new RelayPlace(0, 2, 1, 2), invitation, shell(launcher, STAYING));
        List<String> words = List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty("java.class.path"),
                RelayChild.class.getName(),
                invitation.host(),
                String.valueOf(invitation.port()),
                invitation.secret(),
                "sh",
                "-c",
                STAYING);
        ProcessBuilder builder = new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("relay.txt").toFile());
        builder.environment().putAll(launcher.variables());
        Process second = builder.start();
        ProcessHandle its = process(1);
        ProcessHandle other = process(0);
        second.destroyForcibly();
        UnavailableException said = failure(UnavailableException.class, first);
        assertTrue(said.what().matches("relay 1 \\(\\S+ with rank 1\\) is gone, and ends the others"), said.what());
        requireEnd(its);
        requireEnd(other);
    }

    @Test
    void an_interrupted_relay_ends_its_ranks_and_those_of_others() throws Exception {
        Invitation invitation = FixedRendezvous.somewhere();
        RankCommand command = shell(Launcher.OPEN_MPI, STAYING);
        CompletableFuture<Integer> first = start(new RelayPlace(0, 2, 1, 2), invitation, command);
        CompletableFuture<Integer> second = start(new RelayPlace(1, 2, 1, 2), invitation, command);
        List<ProcessHandle> ranks = List.of(process(0), process(1));
        relays.getLast().interrupt();
        failure(InterruptedException.class, second);
        assertTrue(
                failure(UnavailableException.class, first).what().startsWith("relay 1 ("), "the first one says whose");
        for (ProcessHandle rank : ranks) {
            requireEnd(rank);
        }
    }

    @Test
    void a_relay_with_another_secret_is_refused_and_runs_nothing() throws Exception {
        Invitation invitation = FixedRendezvous.somewhere();
        Invitation wrong = Invitation.random(invitation.host(), invitation.port());
        Map<String, String> variables = Launcher.OPEN_MPI.variables();
        variables.put("OCTET_RELAY_DEADLINE", "3");
        RankCommand command =
                RankCommand.of(List.of("touch", folder.resolve("ran").toString()), variables);
        CompletableFuture<Integer> first = start(new RelayPlace(0, 2, 1, 2), invitation, command);
        CompletableFuture<Integer> second = start(new RelayPlace(1, 2, 1, 2), wrong, command);
        UnavailableException refused = failure(UnavailableException.class, second);
        assertEquals("the first relay has another secret", refused.what());
        assertTrue(refused.fix().contains("OCTET_RELAY_SECRET"), refused.fix());
        UnavailableException missing = failure(UnavailableException.class, first);
        assertTrue(
                missing.what().startsWith("relays that did not come within 3 s: 1 of 2, counted from 0"),
                missing.what());
        assertTrue(printed().contains("octet: refused: who calls from /127.0.0.1:"), printed());
        assertTrue(Files.notExists(folder.resolve("ran")));
    }

    @Test
    void a_first_relay_that_never_listens_is_named_with_where_it_should() throws Exception {
        Invitation invitation = FixedRendezvous.somewhere();
        Map<String, String> variables = new HashMap<>(System.getenv());
        variables.put("OCTET_RELAY_DEADLINE", "1");
        UnavailableException late = failure(
                UnavailableException.class,
                start(new RelayPlace(1, 2, 1, 2), invitation, RankCommand.of(List.of("true"), variables)));
        assertTrue(late.what().startsWith("the first relay cannot be reached within 1 s: "), late.what());
        assertTrue(late.where().endsWith("the first is at " + invitation), late.where());
    }

    @Test
    void a_machine_without_mpirun_and_a_program_that_is_none_are_named_with_what_to_install() throws Exception {
        Invitation nowhere = new Invitation("nowhere", -1, "");
        RelayPlace alone = new RelayPlace(0, 1, 2, 2);
        UnavailableException none = failure(
                UnavailableException.class,
                start(alone, nowhere, RankCommand.of(List.of("true"), Map.of("PATH", folder.toString()))));
        assertEquals("ranks are joined by MPI, and there is no mpirun", none.what());
        assertTrue(none.fix().contains("openmpi-bin or mpich"), none.fix());
        Path other = Files.writeString(folder.resolve("mpirun"), "#!/bin/sh\necho LAM 7.1\n");
        assertTrue(other.toFile().setExecutable(true));
        UnavailableException strange = failure(
                UnavailableException.class,
                start(alone, nowhere, RankCommand.of(List.of("true"), Map.of("PATH", folder.toString()))));
        assertEquals("this is neither Open MPI's mpirun nor MPICH's: LAM 7.1", strange.what());
        assertEquals(other.toString(), strange.where());
        InvalidOptionException deadline = failure(
                InvalidOptionException.class,
                start(
                        new RelayPlace(1, 2, 1, 2),
                        nowhere,
                        RankCommand.of(List.of("true"), Map.of("OCTET_RELAY_DEADLINE", "soon"))));
        assertEquals("environment variable OCTET_RELAY_DEADLINE", deadline.where());
    }
}
