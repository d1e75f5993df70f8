package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Train;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;

/** Training whose ranks the tasks of a barrier stage start, with an installed mpirun. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@ResourceLock(SparkContexts.LOCK)
class TrainJobTest {
    private static final Path MODEL =
            Path.of(System.getProperty("octet.testdata"), "models/tiny-onnx/gpt2_eager_dynamo18.onnx");

    @TempDir
    Path folder;

    @BeforeAll
    static void require_mpirun() {
        assumeTrue(
                Stream.of(System.getenv("PATH").split(":", -1)).anyMatch(f -> Files.isExecutable(Path.of(f, "mpirun"))),
                "there is no mpirun");
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
            data: {train: tokens.bin, sequence: 8}
            loss: {type: causal-lm}
            batch_size: 2
            gradient_accumulation: 4
            steps: 4
            optimizer: {type: adamw, lr: 1.0e-3}
            checkpoint: {every: 2, keep: 100}
            """);
    }

    private List<String> words(String run, String... more) {
        List<String> words = new ArrayList<>(List.of(
                MODEL.toString(),
                "--config",
                folder.resolve("c.yaml").toString(),
                "-o",
                folder.resolve(run).toString()));
        words.addAll(Arrays.asList(more));
        return words;
    }

    /** The run in which one process plays both ranks. */
    private void assertSameAsOneProcess(String run) throws IOException {
        Train.run(
                Train.Request.of(MODEL, folder.resolve("c.yaml"), folder.resolve("played"))
                        .withSimulatedRanks(2),
                Job.defaults().withThreads(1));
        Path expected = folder.resolve("played/checkpoints/step-4");
        try (Stream<Path> files = Files.list(expected)) {
            for (Path file : files.toList()) {
                assertArrayEquals(
                        Files.readAllBytes(file),
                        Files.readAllBytes(folder.resolve(run)
                                .resolve("checkpoints/step-4")
                                .resolve(file.getFileName())),
                        file.toString());
            }
        }
    }

    private List<ProcessHandle> ranks(String run) throws IOException {
        JsonNode notes = new ObjectMapper()
                .readTree(folder.resolve(run).resolve("run.json").toFile())
                .path("sessions")
                .path(0)
                .path("notes");
        String note = Stream.of(notes.toString().split("\"", -1))
                .filter(n -> n.startsWith("2 ranks"))
                .findFirst()
                .orElseThrow();
        return Stream.of(note.replaceAll(".*processes (\\d+), (\\d+);.*", "$1 $2")
                        .split(" ", -1))
                .map(pid -> ProcessHandle.of(Long.parseLong(pid)).orElseThrow())
                .toList();
    }

    private static void requireEnd(List<ProcessHandle> ranks) throws Exception {
        for (ProcessHandle rank : ranks) {
            assertTrue(
                    rank.onExit()
                            .orTimeout(20, TimeUnit.SECONDS)
                            .handle((_, late) -> late == null)
                            .get(),
                    "a rank ended");
        }
    }

    private CompletableFuture<TrainJob.Ended> start(JavaSparkContext spark, String run) throws Exception {
        TrainJob job = new TrainJob(
                spark, words(run, "--set", "steps=4000", "--set", "checkpoint.every=1", "--threads", "1"), 2);
        CompletableFuture<TrainJob.Ended> ended = CompletableFuture.supplyAsync(() -> {
            try {
                return job.run();
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        });
        Path second = folder.resolve(run).resolve("checkpoints/step-2");
        while (!Files.isDirectory(second) && !ended.isDone()) {
            Thread.sleep(20);
        }
        return ended;
    }

    @Test
    void ranks_of_two_executors_leave_the_bytes_of_one_process() throws Exception {
        try (JavaSparkContext spark = SparkContexts.cluster(2)) {
            TrainJob.Ended ended = new TrainJob(spark, words("real"), 2).run();
            assertEquals(0, ended.code(), ended.errors().toString());
            assertTrue(
                    ended.printed().getLast().startsWith("completed at step 4; run: "),
                    ended.printed().toString());
            assertTrue(
                    ended.errors().stream().anyMatch(l -> l.contains("octet-1 is ")),
                    ended.errors().toString());
            assertSameAsOneProcess("real");
        }
    }

    @Test
    void an_executor_that_is_killed_ends_all_ranks_and_the_driver_says_what_to_do() throws Exception {
        try (JavaSparkContext spark = SparkContexts.cluster(2)) {
            CompletableFuture<TrainJob.Ended> ended = start(spark, "real");
            List<ProcessHandle> ranks = ranks("real");
            ProcessHandle executor = executor(ranks.getLast());
            assertTrue(executor.destroyForcibly());
            requireEnd(ranks);
            UnavailableException said = assertInstanceOf(
                    UnavailableException.class,
                    assertThrows(ExecutionException.class, () -> ended.get(60, TimeUnit.SECONDS))
                            .getCause());
            assertEquals("an executor was lost, and with it its ranks; the others were ended", said.what());
            assertTrue(said.fix().contains("--resume"), said.fix());
        }
    }

    /** The executor that a rank belongs to: the process that this one has started, as it plays the cluster. */
    private static ProcessHandle executor(ProcessHandle rank) {
        ProcessHandle process = rank;
        while (!process.parent().orElseThrow().equals(ProcessHandle.current())) {
            process = process.parent().orElseThrow();
        }
        return process;
    }

    @Test
    void a_cancelled_job_ends_its_ranks() throws Exception {
        try (JavaSparkContext spark = new JavaSparkContext(SparkContexts.conf("local[2]"))) {
            CompletableFuture<TrainJob.Ended> ended = start(spark, "real");
            List<ProcessHandle> ranks = ranks("real");
            spark.sc().cancelAllJobs();
            requireEnd(ranks);
            assertThrows(ExecutionException.class, () -> ended.get(60, TimeUnit.SECONDS));
        }
    }

    @Test
    void more_ranks_than_slots_are_refused_with_what_to_give_spark() {
        SparkConf conf = SparkContexts.conf("local[2]")
                .set("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")
                .set("spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures", "1");
        try (JavaSparkContext spark = new JavaSparkContext(conf)) {
            UnavailableException refused =
                    assertThrows(UnavailableException.class, () -> new TrainJob(spark, words("real"), 3).run());
            assertEquals("3 ranks take 3 tasks at once, and Spark has fewer slots", refused.what());
            assertTrue(refused.where().contains("spark.executor.instances"), refused.where());
            InvalidOptionException distant = assertThrows(
                    InvalidOptionException.class,
                    () -> new TrainJob(spark, List.of("hdfs://namenode/model", "-o", "run"), 2).run());
            assertEquals("hdfs://namenode/model", distant.where());
        }
    }

    @Test
    void submitted_training_prints_its_end_and_ends_with_the_code_and_words_of_a_rank_that_fails() throws Exception {
        for (var setting : SparkContexts.conf("local[2]").getAll()) {
            System.setProperty(setting._1(), setting._2());
        }
        try {
            assertTrue(submit(2, "", words("real")).contains("--conf spark.octet.ranks=4"));
            System.setProperty("spark.octet.ranks", "2");
            assertTrue(submit(0, "completed at step 4", words("real")).isEmpty());
            assertSameAsOneProcess("real");
            String errors = submit(2, "", words("other", "--set", "distributed.tensor=4"));
            assertTrue(errors.matches("(?s).*octet: rank [01] of 2 failed, and ends the others:.*"), errors);
            assertTrue(errors.contains("error  "), errors);
        } finally {
            System.getProperties().stringPropertyNames().stream()
                    .filter(n -> n.startsWith("spark."))
                    .forEach(System::clearProperty);
        }
    }

    /** What is printed as errors. */
    private static String submit(int code, String printed, List<String> words) {
        List<String> line = new ArrayList<>(List.of("train"));
        line.addAll(words);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        int got = Submit.run(
                line,
                new PrintStream(out, true, StandardCharsets.UTF_8),
                new PrintStream(err, true, StandardCharsets.UTF_8));
        String errors = err.toString(StandardCharsets.UTF_8);
        assertEquals(code, got, errors);
        assertTrue(out.toString(StandardCharsets.UTF_8).contains(printed), errors);
        return errors;
    }
}
