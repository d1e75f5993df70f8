package dev.octet.trainer.collective;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.collective.RankEnvironment.Launcher;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Ranks that are processes; with the launchers of Open MPI and MPICH where they are installed. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RankProcessesTest {
    @TempDir
    Path folder;

    /** The launcher of an MPI, as Debian and others call it beside others. */
    enum Mpirun {
        OPEN_MPI("/usr/bin/mpirun.openmpi --allow-run-as-root --oversubscribe"),
        MPICH("/usr/bin/mpirun.mpich");

        private final String words;

        Mpirun(String words) {
            this.words = words;
        }

        /** The words that start so many processes; skips the test where there is no such launcher. */
        List<String> start(int processes) {
            List<String> command = new ArrayList<>(List.of(words.split(" ", -1)));
            assumeTrue(Files.isExecutable(Path.of(command.getFirst())), command.getFirst() + " is not installed");
            command.addAll(List.of("-n", String.valueOf(processes)));
            return command;
        }
    }

    private record Ended(int code, String printed, Duration took) {}

    private Ended run(Mpirun mpirun, int processes, String word) throws IOException, InterruptedException {
        List<String> command = mpirun.start(processes);
        command.addAll(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "--enable-native-access=ALL-UNNAMED",
                "-cp",
                System.getProperty("java.class.path"),
                RankChild.class.getName(),
                word));
        Path printed = folder.resolve("printed.txt");
        long start = System.nanoTime();
        Process process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(printed.toFile())
                .start();
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the processes ended");
        return new Ended(process.exitValue(), Files.readString(printed), Duration.ofNanos(System.nanoTime() - start));
    }

    @ParameterizedTest
    @EnumSource
    void every_call_among_processes_gives_the_bytes_that_it_gives_among_threads(Mpirun mpirun) throws Exception {
        int ranks = mpirun == Mpirun.OPEN_MPI ? 3 : 2;
        Ended ended = run(mpirun, ranks, "calls");
        List<String> expected = RankThreads.run(ranks, Duration.ofSeconds(30), RankChild::digest);
        assertEquals(0, ended.code, ended.printed);
        for (int r = 0; r < ranks; r++) {
            String said = "rank " + r + " of " + ranks + " by " + (mpirun == Mpirun.MPICH ? "MPICH" : "Open MPI");
            assertTrue(
                    ended.printed.lines().anyMatch(l -> l.startsWith(said) && l.endsWith(": " + expected.getFirst())),
                    ended.printed);
        }
    }

    @ParameterizedTest
    @EnumSource
    void a_rank_that_fails_ends_those_that_wait_for_it(Mpirun mpirun) throws Exception {
        Ended ended = run(mpirun, 2, "fail");
        assertNotEquals(0, ended.code, ended.printed);
        assertTrue(ended.printed.contains("rank 1 of 2 has no space left"), ended.printed);
        assertTrue(ended.took.toSeconds() < 30, "the deadline is half an hour: " + ended.took);
    }

    @Test
    void rank_and_size_are_those_that_the_launcher_tells_by_its_variables() {
        Map<String, String> openMpi = Map.of(
                "OMPI_COMM_WORLD_RANK",
                "1",
                "OMPI_COMM_WORLD_SIZE",
                "4",
                "OMPI_COMM_WORLD_LOCAL_SIZE",
                "2",
                "OMPI_COMM_WORLD_LOCAL_RANK",
                "1");
        assertEquals(Optional.of(new RankEnvironment(Launcher.OPEN_MPI, 1, 4, 2, 1)), RankEnvironment.of(openMpi));
        Map<String, String> mpich = Map.of("PMI_RANK", "0", "PMI_SIZE", "2", "MPI_LOCALNRANKS", "2");
        assertEquals(Optional.of(new RankEnvironment(Launcher.MPICH, 0, 2, 2, 0)), RankEnvironment.of(mpich));
        Map<String, String> slurm = Map.of("SLURM_PROCID", "7", "SLURM_STEP_NUM_TASKS", "8", "SLURM_LOCALID", "3");
        assertEquals(Optional.of(new RankEnvironment(Launcher.SLURM, 7, 8, 1, 3)), RankEnvironment.of(slurm));
        Map<String, String> torchrun = Map.of("RANK", "1", "WORLD_SIZE", "2", "LOCAL_WORLD_SIZE", "2");
        assertEquals(Optional.of(new RankEnvironment(Launcher.TORCHRUN, 1, 2, 2, 0)), RankEnvironment.of(torchrun));
        Map<String, String> within = new HashMap<>(slurm);
        within.putAll(torchrun);
        within.put("TORCHELASTIC_RUN_ID", "none");
        assertEquals(
                Optional.of(new RankEnvironment(Launcher.TORCHRUN, 1, 2, 2, 0)),
                RankEnvironment.of(within),
                "a torchrun that srun has started");
    }

    @Test
    void a_process_without_launcher_alone_under_one_or_outside_of_a_step_of_Slurm_has_no_rank() {
        for (Map<String, String> alone : List.of(
                Map.of("PATH", "/usr/bin"),
                Map.of("OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1"),
                Map.of("SLURM_PROCID", "0", "SLURM_NTASKS", "8"))) {
            assertEquals(Optional.empty(), RankEnvironment.of(alone));
        }
    }

    @Test
    void variables_that_make_no_sense_are_named() {
        assertEquals(
                "environment variable PMI_SIZE",
                assertThrows(
                                InvalidOptionException.class,
                                () -> RankEnvironment.of(Map.of("PMI_RANK", "0", "PMI_SIZE", "two")))
                        .where());
        assertEquals(
                "there is no rank 2 of 2; ranks count from 0",
                assertThrows(
                                InvalidOptionException.class,
                                () -> RankEnvironment.of(Map.of("RANK", "2", "WORLD_SIZE", "2")))
                        .what());
        assertEquals(
                "environment variable " + RankEnvironment.DEADLINE,
                assertThrows(
                                InvalidOptionException.class,
                                () -> RankEnvironment.deadline(Map.of(RankEnvironment.DEADLINE, "0")))
                        .where());
        assertEquals(Duration.ofSeconds(5), RankEnvironment.deadline(Map.of(RankEnvironment.DEADLINE, "5")));
    }

    @Test
    void the_page_names_the_variables_of_launchers_and_those_of_Octet() throws IOException {
        String page =
                Files.readString(Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/distributed.md"));
        for (Launcher launcher : Launcher.values()) {
            assertTrue(page.contains(launcher.variables()), launcher.variables());
        }
        assertTrue(page.contains("`" + RankEnvironment.DEADLINE + "`"));
        assertTrue(page.contains("`" + Mpi.LIBRARY + "`"));
        assertEquals(Duration.ofMinutes(30), RankEnvironment.deadline(Map.of()), "half an hour");
    }

    @Test
    void ranks_of_a_machine_share_its_processors() {
        assertEquals(4, new RankEnvironment(Launcher.OPEN_MPI, 0, 4, 4, 0).threads(16));
        assertEquals(1, new RankEnvironment(Launcher.OPEN_MPI, 0, 4, 4, 0).threads(2));
    }

    @Test
    void a_library_that_is_not_there_and_a_launcher_without_one_are_named_with_what_to_install() {
        RankEnvironment two = new RankEnvironment(Launcher.OPEN_MPI, 0, 2, 2, 0);
        UnavailableException missing = assertThrows(
                UnavailableException.class,
                () -> RankProcesses.join(two, Map.of("OCTET_MPI_LIBRARY", "/nowhere/libmpi.so")));
        assertEquals("no MPI library was found", missing.what());
        assertTrue(missing.where().contains("OCTET_MPI_LIBRARY=/nowhere/libmpi.so"), missing.where());
        UnavailableException refused = assertThrows(
                UnavailableException.class,
                () -> RankProcesses.join(new RankEnvironment(Launcher.TORCHRUN, 0, 2, 2, 0), Map.of()));
        assertEquals("torchrun started 2 ranks without MPI, which joins them", refused.what());
        assertTrue(refused.fix().contains("mpirun -n 2"), refused.fix());
    }
}
