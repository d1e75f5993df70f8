package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.tensor.Shape;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Train;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.hook.RunEnd;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** {@code mpirun -n 2 octet train}, with the launchers of Open MPI and MPICH where they are installed. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RankedTrainingTest {
    private static final Path ROOT = Path.of(System.getProperty("octet.root", ".."));
    private static final String MODEL =
            ROOT.resolve("testdata/models/tiny-onnx/gpt2_eager_dynamo18.onnx").toString();

    @TempDir
    Path folder;

    /** A launcher, as Debian and others call it beside others. */
    enum Mpirun {
        OPEN_MPI("/usr/bin/mpirun.openmpi --allow-run-as-root --oversubscribe"),
        MPICH("/usr/bin/mpirun.mpich");

        private final String words;

        Mpirun(String words) {
            this.words = words;
        }

        private List<String> command() {
            List<String> command = new ArrayList<>(List.of(words.split(" ", -1)));
            assumeTrue(Files.isExecutable(Path.of(command.getFirst())), command.getFirst() + " is not installed");
            return command;
        }
    }

    @BeforeEach
    void make() throws IOException {
        byte[] tokens = new byte[2 * 600];
        SplittableRandom random = new SplittableRandom(3);
        for (int i = 0; i < tokens.length; i += 2) {
            tokens[i] = (byte) random.nextInt(100);
        }
        Files.write(folder.resolve("tokens.bin"), tokens);
        Files.writeString(folder.resolve("c.yaml"), """
            data: {train: tokens.bin, eval: tokens.bin, sequence: 8}
            loss: {type: causal-lm}
            batch_size: 2
            gradient_accumulation: 4
            steps: 6
            optimizer: {type: adamw, lr: 1.0e-3}
            checkpoint: {every: 2, keep: 100}
            """);
    }

    private List<String> words(String run, String... more) {
        List<String> words = new ArrayList<>(List.of(
                "train",
                MODEL,
                "--config",
                folder.resolve("c.yaml").toString(),
                "-o",
                folder.resolve(run).toString()));
        words.addAll(Arrays.asList(more));
        return words;
    }

    private Process start(Mpirun mpirun, List<String> words) throws IOException {
        return start(mpirun, 2, words);
    }

    private Process start(Mpirun mpirun, int processes, List<String> words) throws IOException {
        List<String> command = mpirun.command();
        command.addAll(List.of("-n", String.valueOf(processes)));
        command.addAll(Child.java("-XX:TieredStopAtLevel=1"));
        command.add(Start.class.getName());
        command.addAll(words);
        return Child.start(command, folder.resolve("printed.txt"));
    }

    private String printed() throws IOException {
        return Files.readString(folder.resolve("printed.txt"));
    }

    private Map<String, byte[]> files(String run, long step) throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all =
                Files.list(folder.resolve(run).resolve("checkpoints").resolve("step-" + step))) {
            for (Path file : all.toList()) {
                files.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return files;
    }

    private void assertSameBytes(String expected, String got, long step) throws IOException {
        Map<String, byte[]> first = files(expected, step);
        Map<String, byte[]> second = files(got, step);
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
    }

    /** The run in which one process plays both ranks. */
    private void play(String run, String... more) {
        List<String> words = words(run, "--simulate-ranks", "2");
        words.addAll(List.of(more));
        CommandLine line = CommandLine.run(words.toArray(String[]::new));
        assertEquals(ExitCode.OK, line.code(), line.err());
    }

    @Test
    void two_processes_leave_the_bytes_that_one_does_and_the_first_speaks_for_both() throws Exception {
        requireSameRun(Mpirun.OPEN_MPI);
    }

    /** A process of torchrun; all processes print into one file. */
    private Process startPlaced(Mpirun mpirun, Map<String, String> variables, List<String> words) throws IOException {
        String program = mpirun.command().getFirst();
        List<String> command = Child.java("-XX:TieredStopAtLevel=1");
        command.add(Start.class.getName());
        command.addAll(words);
        ProcessBuilder builder = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(
                        folder.resolve("printed.txt").toFile()));
        builder.environment().putAll(variables);
        builder.environment().put("OCTET_MPIRUN", program);
        builder.environment().put("TORCHELASTIC_RUN_ID", "none");
        return builder.start();
    }

    /** What torchrun tells one of two processes that share a machine. */
    private static Map<String, String> onOneMachine(int rank) {
        return Map.of(
                "RANK", String.valueOf(rank),
                "WORLD_SIZE", "2",
                "LOCAL_RANK", String.valueOf(rank),
                "LOCAL_WORLD_SIZE", "2",
                "GROUP_RANK", "0",
                "GROUP_WORLD_SIZE", "1",
                "MASTER_ADDR", "localhost",
                "MASTER_PORT", "29500");
    }

    /** The same of two that are on a machine each. */
    private static Map<String, String> onTwoMachines(int rank, int port) {
        Map<String, String> variables = new TreeMap<>(onOneMachine(rank));
        variables.putAll(Map.of(
                "LOCAL_RANK", "0",
                "LOCAL_WORLD_SIZE", "1",
                "GROUP_RANK", String.valueOf(rank),
                "GROUP_WORLD_SIZE", "2",
                "OCTET_RELAY_SECRET", "for the test alone",
                "OCTET_RELAY_PORT", String.valueOf(port)));
        return variables;
    }

    private static int freePort() throws IOException {
        try (ServerSocket free = new ServerSocket(0)) {
            return free.getLocalPort();
        }
    }

    @Test
    void processes_that_torchrun_places_on_one_machine_leave_the_bytes_of_one_process() throws Exception {
        Process first = startPlaced(Mpirun.OPEN_MPI, onOneMachine(0), words("real"));
        Process second = startPlaced(Mpirun.OPEN_MPI, onOneMachine(1), words("real"));
        requireSame(first, second);
    }

    @Test
    void processes_that_torchrun_places_on_two_machines_leave_the_bytes_of_one_process() throws Exception {
        requireSameOnTwoMachines(Mpirun.OPEN_MPI);
    }

    @Tag("sweep")
    @Test
    void processes_on_two_machines_are_joined_by_mpich_too() throws Exception {
        requireSameOnTwoMachines(Mpirun.MPICH);
    }

    private void requireSameOnTwoMachines(Mpirun mpirun) throws Exception {
        int port = freePort();
        Process second = startPlaced(mpirun, onTwoMachines(1, port), words("real"));
        requireSame(startPlaced(mpirun, onTwoMachines(0, port), words("real")), second);
        assertTrue(printed().contains("octet-1 is "), printed());
    }

    private void requireSame(Process first, Process second) throws Exception {
        play("played");
        assertTrue(first.waitFor(60, TimeUnit.SECONDS), "the run ended");
        assertEquals(0, first.exitValue(), printed());
        assertTrue(second.waitFor(10, TimeUnit.SECONDS), "so did the other process");
        assertEquals(0, second.exitValue(), printed());
        assertSameBytes("played", "real", 6);
        assertEquals(1, printed().split("completed at step 6", -1).length - 1, printed());
    }

    @Test
    void a_mesh_that_is_not_torchruns_number_of_processes_is_refused_with_the_code_of_wrong_usage() throws Exception {
        Process first = startPlaced(Mpirun.OPEN_MPI, onOneMachine(0), words("real", "--set", "distributed.tensor=4"));
        assertTrue(first.waitFor(60, TimeUnit.SECONDS), "the processes ended");
        assertEquals(ExitCode.USAGE.number(), first.exitValue(), printed());
        assertTrue(printed().matches("(?s).*octet: rank [01] of 2 failed, and ends the others:.*"), printed());
        assertTrue(printed().contains("tensor"), printed());
    }

    /** SIGKILL, which no program can answer. */
    @Test
    void ranks_end_when_the_process_of_torchrun_that_started_them_is_killed() throws Exception {
        Process first = startPlaced(
                Mpirun.OPEN_MPI, onOneMachine(0), words("real", "--set", "steps=4000", "--set", "checkpoint.every=1"));
        Path second = folder.resolve("real/checkpoints/step-2");
        while (!Files.isDirectory(second) && !first.waitFor(20, TimeUnit.MILLISECONDS)) {}
        List<ProcessHandle> all = first.descendants().toList();
        assertTrue(all.stream().anyMatch(p -> p.pid() == Long.parseLong(pidOfRankOne())), "rank 1 is one of them");
        assertTrue(first.destroyForcibly().waitFor(10, TimeUnit.SECONDS));
        for (ProcessHandle process : all) {
            process.onExit().get(20, TimeUnit.SECONDS);
        }
    }

    private String pidOfRankOne() {
        try {
            return processOfRankOne();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void a_killed_rank_is_named_the_others_end_within_seconds_and_the_last_checkpoint_is_whole() throws Exception {
        requireGoodEnd(Mpirun.MPICH);
    }

    /** Once there is a checkpoint of step 4. */
    private void killRankOne(Process process) throws Exception {
        Path fourth = folder.resolve("real/checkpoints/step-4");
        while (!Files.isDirectory(fourth) && !process.waitFor(20, TimeUnit.MILLISECONDS)) {}
        assertTrue(ProcessHandle.of(Long.parseLong(processOfRankOne()))
                .orElseThrow()
                .destroyForcibly());
        assertTrue(process.waitFor(20, TimeUnit.SECONDS), "the others ended");
    }

    private void exportWeights() {
        CommandLine exported = CommandLine.run(
                "export",
                folder.resolve("real").toString(),
                "-o",
                folder.resolve("weights.safetensors").toString(),
                "--target",
                "safetensors");
        assertEquals(ExitCode.OK, exported.code(), exported.err());
    }

    /** In this process. */
    private void resumeOneStep(String setting, String other) {
        CommandLine resumed = CommandLine.run(
                "train",
                "--resume",
                folder.resolve("real").toString(),
                "--steps",
                "1",
                "--set",
                setting,
                "--set",
                other);
        assertEquals(ExitCode.OK, resumed.code(), resumed.err());
    }

    /** Each process writes its share of checkpoints; where one is killed, what is left has the bytes of the run that keeps all. */
    @Test
    void of_processes_that_share_out_one_is_killed_and_one_process_alone_goes_on() throws Exception {
        String[] shares = {"--set", "distributed.zero=3", "--set", "steps=4000", "--set", "checkpoint.every=1"};
        Process process = start(Mpirun.OPEN_MPI, words("real", shares));
        killRankOne(process);
        long newest = newest("real");
        assertTrue(files("real", newest).containsKey("state-00002-of-00002.safetensors"), printed());
        exportWeights();
        resumeOneStep("precision.ranks=2", "precision.gradient_reduction=f32");
        List<String> more = new ArrayList<>(List.of(shares));
        more.addAll(List.of("--steps", String.valueOf(newest + 1)));
        play("played", more.toArray(String[]::new));
        assertSameBytes("played", "real", newest + 1);
    }

    /** Interleaved stages of a model that is tied. */
    @Test
    void processes_that_are_stages_leave_the_bytes_that_threads_do() throws Exception {
        requireSameStages(Mpirun.OPEN_MPI, 2, "distributed.chunks=2");
    }

    @Tag("sweep")
    @ParameterizedTest
    @EnumSource
    void stages_leave_the_bytes_that_threads_do_with_each_launcher(Mpirun mpirun) throws Exception {
        requireSameStages(mpirun, 4, "distributed.zero=1");
    }

    private void requireSameStages(Mpirun mpirun, int processes, String setting) throws Exception {
        String[] stages = {"--set", "distributed.pipeline=2", "--set", setting, "--set", "precision.mode=fp8"};
        Process process = start(mpirun, processes, words("real", stages));
        Train.Request request = Train.Request.of(Path.of(MODEL), folder.resolve("c.yaml"), folder.resolve("played"))
                .withSettings(List.of(stages[1], stages[3], stages[5]));
        RankThreads.run(
                processes,
                Duration.ofSeconds(60),
                world -> Train.run(request, _ -> List.of(), Job.defaults().withThreads(1), world));
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the run ended");
        assertEquals(0, process.exitValue(), printed());
        assertSameBytes("played", "real", 6);
        assertEquals(numbers("played"), numbers("real"));
        assertTrue(files("real", 6).containsKey("parameters-00002-of-0000" + processes + ".safetensors"));
    }

    /** With limits that products exceed and losses leave within six steps. */
    @Test
    void processes_with_a_guard_demote_and_go_back_at_the_steps_at_which_one_process_does() throws Exception {
        Files.writeString(folder.resolve("c.yaml"), """
            precision: {mode: fp8}
            guard: {every: 1, warm_up: 1, quiet: 2, cast_error: {demote: 0.035, promote: 0.03},
              spike: {loss: 0.1, window: 4, snapshot_every: 2, skip: 1, retries: 20}}
            """, StandardOpenOption.APPEND);
        Process process = start(Mpirun.OPEN_MPI, words("real", "--set", "distributed.zero=3"));
        play("played");
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the run ended");
        assertEquals(0, process.exitValue(), printed());
        String decisions = Files.readString(folder.resolve("played/guard.jsonl"));
        assertTrue(decisions.contains("demoted") && decisions.contains("rolled_back"), decisions);
        assertEquals(decisions, Files.readString(folder.resolve("real/guard.jsonl")));
        assertEquals(numbers("played"), numbers("real"));
    }

    /** A stage that is killed while others wait for what it computes. */
    @Test
    void a_killed_stage_ends_the_others_and_its_run_goes_on_in_one_process() throws Exception {
        String[] stages = {"--set", "distributed.pipeline=2", "--set", "steps=4000", "--set", "checkpoint.every=1"};
        Process process = start(Mpirun.OPEN_MPI, words("real", stages));
        killRankOne(process);
        long newest = newest("real");
        exportWeights();
        resumeOneStep("distributed.pipeline=1", "distributed.reshape=true");
        assertEquals(newest + 1, newest("real"));
    }

    @Test
    void a_dry_run_of_one_process_says_what_each_stage_has() throws Exception {
        String[] stages = {"--dry-run", "--set", "distributed.pipeline=2", "--set", "distributed.chunks=2"};
        CommandLine text = CommandLine.run(words("run", stages).toArray(String[]::new));
        assertEquals(ExitCode.OK, text.code(), text.err());
        List<String> rows = text.out()
                .lines()
                .dropWhile(l -> !l.startsWith("stages"))
                .map(String::strip)
                .toList();
        assertEquals(3, rows.size(), text.out());
        assertTrue(
                rows.getFirst().endsWith("2 of 2 chunks of layers each, for 4 micro-batches of a step:"), text.out());
        assertTrue(
                rows.get(1)
                        .matches("1: [0-9.]+ % of the work, [0-9,]+ weights, at most 6 in flight; [0-9.]+ kB, of it"
                                + " [0-9.]+ kB between steps"),
                text.out());
        List<String> words = words("run", stages);
        words.add("--json");
        JsonNode plan = new ObjectMapper()
                .readTree(CommandLine.run(words.toArray(String[]::new)).out())
                .path("stages");
        assertEquals(2, plan.path("chunks").asInt());
        assertEquals(2, plan.path("stages").path(1).path("parts").size());
        assertEquals(
                1,
                plan.path("stages").path(0).path("share").asDouble()
                        + plan.path("stages").path(1).path("share").asDouble(),
                1e-9);
    }

    @Test
    void two_processes_that_share_layers_leave_the_bytes_of_two_threads_and_export_whole_weights() throws Exception {
        requireSameParts(Mpirun.OPEN_MPI);
        exportWeights();
        try (ModelFile file = ModelFile.open(folder.resolve("weights.safetensors"))) {
            assertEquals(
                    Shape.of(96, 32),
                    Objects.requireNonNull(file.model().tensors().get("m.transformer.h.0.attn.c_attn.weight"))
                            .shape());
        }
    }

    private void requireSameParts(Mpirun mpirun) throws Exception {
        String mesh = "distributed.tensor=2";
        String sequence = "distributed.sequence_parallel=true";
        Process process = start(mpirun, words("real", "--set", mesh, "--set", sequence));
        Train.Request request = Train.Request.of(Path.of(MODEL), folder.resolve("c.yaml"), folder.resolve("played"))
                .withSettings(List.of(mesh, sequence));
        List<RunEnd> ends = RankThreads.run(
                2,
                Duration.ofSeconds(60),
                world -> Train.run(request, _ -> List.of(), Job.defaults().withThreads(1), world));
        assertEquals(6, ends.getLast().step());
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the run ended");
        assertEquals(0, process.exitValue(), printed());
        assertSameBytes("played", "real", 6);
        assertEquals(numbers("played"), numbers("real"));
        assertTrue(files("real", 6).containsKey("parameters-00002-of-00002.safetensors"));
        assertTrue(printed().contains("2 ranks (data 1 x tensor 2), joined by "), printed());
    }

    @Test
    void a_dry_run_says_what_each_rank_has_of_layers_that_ranks_share() {
        CommandLine text = CommandLine.run(
                words("run", "--dry-run", "--set", "distributed.tensor=4").toArray(String[]::new));
        assertEquals(ExitCode.OK, text.code(), text.err());
        assertTrue(
                text.out()
                        .contains("tensor: each of 4 ranks has a part of 9 of 9 Linears, here 7056 of 28256 elements"),
                text.out());
        for (int ranks : new int[] {3, 8}) {
            CommandLine uneven = CommandLine.run(words("run", "--dry-run", "--set", "distributed.tensor=" + ranks)
                    .toArray(String[]::new));
            assertEquals(ExitCode.USAGE, uneven.code(), uneven.err());
            assertTrue(
                    uneven.err().contains("4 heads of '/m/transformer/h.0/attn' cannot be shared out evenly"),
                    uneven.err());
        }
    }

    @Test
    void a_dry_run_says_what_the_rank_that_keeps_most_needs_with_each_stage() throws Exception {
        String[] four = {
            "--dry-run",
            "--set",
            "precision.ranks=4",
            "--set",
            "precision.gradient_reduction=f32",
            "--set",
            "distributed.zero=2"
        };
        CommandLine text = CommandLine.run(words("run", four).toArray(String[]::new));
        assertEquals(ExitCode.OK, text.code(), text.err());
        List<String> memory = text.out()
                .lines()
                .dropWhile(l -> !l.startsWith("memory"))
                .map(String::strip)
                .toList();
        assertEquals(5, memory.size(), text.out());
        assertTrue(memory.getFirst().endsWith("of 4 ranks the one that keeps most, by distributed.zero:"), text.out());
        assertTrue(memory.get(3).matches("2: [0-9.]+ kB, of it [0-9.]+ kB between steps \\(this run\\)"), text.out());
        List<String> words = words("run", four);
        words.add("--json");
        JsonNode shards = new ObjectMapper()
                .readTree(CommandLine.run(words.toArray(String[]::new)).out())
                .path("shards");
        assertEquals(4, shards.path("ranks").asInt());
        assertEquals(4, shards.path("stages").size());
        for (int i = 1; i < 4; i++) {
            long less = shards.path("stages").path(i).path("lasting_bytes").asLong();
            assertTrue(
                    less > 0
                            && less
                                    < shards.path("stages")
                                            .path(i - 1)
                                            .path("lasting_bytes")
                                            .asLong(),
                    "stage " + i);
        }
    }

    @Test
    void an_error_is_printed_with_the_name_of_its_rank_and_its_code_is_that_of_the_launcher() throws Exception {
        requireNamedError(Mpirun.OPEN_MPI);
    }

    /** What {@code verify} does with one launcher, with each of them. */
    @Tag("sweep")
    @ParameterizedTest
    @EnumSource
    void runs_killed_ranks_and_errors_are_the_same_with_each_launcher(Mpirun mpirun) throws Exception {
        requireSameRun(mpirun);
        clear();
        requireGoodEnd(mpirun);
        clear();
        requireNamedError(mpirun);
        requireSameParts(mpirun);
    }

    private void clear() throws IOException {
        Files.move(
                folder.resolve("real"),
                Files.createTempDirectory(folder, "done").resolve("real"));
        if (Files.exists(folder.resolve("played"))) {
            Files.move(
                    folder.resolve("played"),
                    Files.createTempDirectory(folder, "done").resolve("played"));
        }
    }

    private void requireSameRun(Mpirun mpirun) throws Exception {
        Process process = start(mpirun, words("real"));
        play("played");
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the run ended");
        assertEquals(0, process.exitValue(), printed());
        assertSameBytes("played", "real", 6);
        assertEquals(1, printed().split("completed at step 6", -1).length - 1, printed());
        assertEquals(1, printed().split("2 ranks, joined by ", -1).length - 1, printed());
        List<String> expected = numbers("played");
        assertEquals(expected, numbers("real"));
        assertEquals(7, expected.size(), "steps and an evaluation");
    }

    /** What metrics say but for times and memory. */
    private List<String> numbers(String run) throws IOException {
        List<String> all = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve(run).resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            StringBuilder text = new StringBuilder();
            for (String key : List.of("step", "loss", "eval_loss", "eval_perplexity", "grad_norm", "tokens")) {
                text.append(key).append(' ').append(node.path(key)).append(' ');
            }
            if (node.has("loss") || node.has("eval_loss")) {
                all.add(text.toString());
            }
        }
        return all;
    }

    private void requireGoodEnd(Mpirun mpirun) throws Exception {
        Process process = start(mpirun, words("real", "--set", "steps=4000", "--set", "checkpoint.minutes=0"));
        Path second = folder.resolve("real/checkpoints/step-4");
        while (!Files.isDirectory(second) && !process.waitFor(20, TimeUnit.MILLISECONDS)) {}
        String pid = processOfRankOne();
        long killed = System.nanoTime();
        assertTrue(ProcessHandle.of(Long.parseLong(pid)).orElseThrow().destroyForcibly());
        assertTrue(process.waitFor(20, TimeUnit.SECONDS), "the others ended");
        long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - killed);
        assertTrue(seconds < 15, seconds + " s");
        assertNotEquals(0, process.exitValue());
        // Open MPI names the rank, MPICH the process, which the run has named
        String named = mpirun == Mpirun.OPEN_MPI ? "process rank 1 " : "PID " + pid;
        assertTrue(printed().contains(named), printed());
        long newest = newest("real");
        play("played", "--set", "steps=4000", "--steps", String.valueOf(newest));
        assertSameBytes("played", "real", newest);
    }

    /** The number of a process, as the run has noted it. */
    private String processOfRankOne() throws IOException {
        JsonNode notes = new ObjectMapper()
                .readTree(folder.resolve("real/run.json").toFile())
                .path("sessions")
                .path(0)
                .path("notes");
        String note = Stream.of(notes.toString().split("\"", -1))
                .filter(n -> n.startsWith("2 ranks"))
                .findFirst()
                .orElseThrow();
        return note.replaceAll(".*processes \\d+, (\\d+);.*", "$1");
    }

    private long newest(String run) throws IOException {
        try (Stream<Path> all = Files.list(folder.resolve(run).resolve("checkpoints"))) {
            return all.map(p -> p.getFileName().toString())
                    .filter(n -> n.matches("step-\\d+"))
                    .mapToLong(n -> Long.parseLong(n.substring(5)))
                    .max()
                    .orElseThrow();
        }
    }

    private void requireNamedError(Mpirun mpirun) throws Exception {
        Process process = start(mpirun, words("real", "--simulate-ranks", "2"));
        assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the processes ended");
        assertEquals(ExitCode.USAGE.number(), process.exitValue(), printed());
        assertTrue(printed().matches("(?s).*octet: rank [01] of 2 failed, and ends the others:.*"), printed());
        assertTrue(printed().contains("where: --simulate-ranks 2; rank "), printed());
        assertTrue(Files.notExists(folder.resolve("real")), "nothing was written");
    }
}
