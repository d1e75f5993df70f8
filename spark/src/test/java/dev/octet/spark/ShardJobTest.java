package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.pipeline.Calibrate;
import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.pipeline.CheckpointShards;
import dev.octet.pipeline.Convert;
import dev.octet.pipeline.Dequantize;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.pipeline.SampleSource;
import dev.octet.pipeline.Target;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.scale.ScaleSearch;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;

/** Verbs by shards: what they write, and what they do when something goes wrong. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@ResourceLock(SparkContexts.LOCK)
class ShardJobTest {
    private static final AtomicInteger ATTEMPTS = new AtomicInteger();

    @TempDir
    private static Path shared;

    private static JavaSparkContext spark;
    private static Path model;

    @BeforeAll
    static void start() throws IOException {
        model = ShardedModel.make(shared.resolve("model"));
        spark = SparkContexts.local();
    }

    @AfterAll
    static void stop() {
        spark.stop();
    }

    private static ShardRequest dynamic() {
        return (m, o, job) -> CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.FP8_DYNAMIC), job);
    }

    private static Path alone(Path folder, Recipe recipe) throws IOException {
        Path alone = folder.resolve("alone");
        Quantize.run(Quantize.CheckpointRequest.of(model, alone, recipe), Job.defaults());
        return alone;
    }

    private static ShardJob job(Path output) {
        return new ShardJob(spark, model.toString(), output.toString());
    }

    @Test
    void every_recipe_writes_the_bytes_of_one_process(@TempDir Path folder) throws IOException {
        for (String name : List.of("fp8-block", "nvfp4", "mxfp8", "int4")) {
            Path own = Files.createDirectory(folder.resolve(name));
            Path alone = alone(own, ShardedModel.recipe(name));
            job(own.resolve("together"))
                    .run((m, o, job) ->
                            CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, ShardedModel.recipe(name)), job));
            ShardedModel.assertSame(alone, own.resolve("together"));
        }
    }

    @Test
    void weights_in_different_files_share_their_scale(@TempDir Path folder) throws IOException {
        Path alone = folder.resolve("alone");
        CheckpointOutcome expected =
                Quantize.run(Quantize.CheckpointRequest.of(model, alone, Recipes.NVFP4), Job.defaults());
        CheckpointOutcome outcome = job(folder.resolve("together"))
                .run((m, o, job) -> CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.NVFP4), job));
        ShardedModel.assertSame(alone, folder.resolve("together"));
        assertEquals(expected.sharedScales(), outcome.sharedScales());
        assertEquals(expected.weights(), outcome.weights());
    }

    @Test
    void dequantize_and_convert_write_the_bytes_of_one_process(@TempDir Path folder) throws IOException {
        Path block = alone(folder, Recipes.FP8_BLOCK);
        Target.Checkpoint target = Target.CHECKPOINTS.stream()
                .filter(t -> t.label().equals("compressed-tensors"))
                .findFirst()
                .orElseThrow();
        Dequantize.run(
                Dequantize.Request.of(block, folder.resolve("floats"))
                        .withType(DType.F32)
                        .with(Dequantize.Choice.KEEP_SCALES),
                Job.defaults());
        new ShardJob(spark, block.toString(), folder.resolve("floats-together").toString())
                .run((m, o, job) -> CheckpointShards.of(
                        Dequantize.Request.of(m, o).withType(DType.F32).with(Dequantize.Choice.KEEP_SCALES), job));
        ShardedModel.assertSame(folder.resolve("floats"), folder.resolve("floats-together"));
        Convert.run(Convert.ToLayout.of(block, folder.resolve("converted"), target), Job.defaults());
        new ShardJob(
                        spark,
                        block.toString(),
                        folder.resolve("converted-together").toString())
                .run((m, o, job) -> CheckpointShards.of(
                        Convert.ToLayout.of(
                                m,
                                o,
                                Target.CHECKPOINTS.stream()
                                        .filter(t -> t.label().equals("compressed-tensors"))
                                        .findFirst()
                                        .orElseThrow()),
                        job));
        ShardedModel.assertSame(folder.resolve("converted"), folder.resolve("converted-together"));
    }

    @Test
    void compensated_rounding_and_searched_scales_are_those_of_one_process(@TempDir Path folder) throws IOException {
        Path llama = Path.of(System.getProperty("octet.testdata"), "models", "tiny-hf", "llama");
        String statistics = folder + "/llama.stats";
        Path texts =
                Files.writeString(folder.resolve("texts.jsonl"), "{\"text\": \"the cat sat on the mat\"}\n".repeat(8));
        Calibrate.run(
                Calibrate.Request.of(
                                llama,
                                Path.of(statistics),
                                SampleSource.of(texts)
                                        .withTokenizer(Path.of(
                                                System.getProperty("octet.testdata"), "tokenizer", "words.json")))
                        .with(Calibrate.Choice.SECOND_MOMENTS),
                Job.defaults());
        Quantize.WeightRounds rounds = Quantize.WeightRounds.GPTQ.with(ScaleSearch.MSE);
        CheckpointOutcome expected = Quantize.run(
                Quantize.CheckpointRequest.of(llama, folder.resolve("alone"), Recipes.NVFP4)
                        .withStatistics(Path.of(statistics))
                        .withRounding(rounds),
                Job.defaults());
        CheckpointOutcome outcome = new ShardJob(spark, llama.toString(), folder + "/together")
                .run((m, o, job) -> CheckpointShards.of(
                        Quantize.CheckpointRequest.of(m, o, Recipes.NVFP4)
                                .withStatistics(Path.of(statistics))
                                .withRounding(Quantize.WeightRounds.GPTQ.with(ScaleSearch.MSE)),
                        job));
        assertFalse(expected.roundingErrors().isEmpty());
        assertEquals(expected.roundingErrors(), outcome.roundingErrors());
        assertEquals(
                -1,
                Files.mismatch(
                        folder.resolve("alone/model.safetensors"), folder.resolve("together/model.safetensors")));
    }

    @Test
    void a_file_system_of_hadoop_is_read_and_written(@TempDir Path folder) throws IOException {
        Path alone = alone(folder, Recipes.FP8_BLOCK);
        spark.hadoopConfiguration().set("fs.distant.impl", DistantFileSystem.class.getName());
        CheckpointOutcome outcome = new ShardJob(spark, "distant:" + model, "distant:" + folder + "/together")
                .run((m, o, job) -> {
                    assertTrue(m.toString().startsWith("distant:"), m.toString());
                    return CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.FP8_BLOCK), job);
                });
        ShardedModel.assertSame(alone, folder.resolve("together"));
        assertEquals("distant:" + folder + "/together", outcome.output());
    }

    @Test
    void a_driver_that_is_killed_leaves_what_is_finished_to_the_next(@TempDir Path folder) throws Exception {
        Path alone = alone(folder, Recipes.FP8_DYNAMIC);
        Path together = folder.resolve("together");
        List<String> command = new ArrayList<>(
                List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(a -> a.startsWith("--") || a.startsWith("-Doctet"))
                .forEach(command::add);
        command.addAll(List.of(
                "-Xmx512m",
                "-cp",
                System.getProperty("java.class.path"),
                KilledDriver.class.getName(),
                model.toString(),
                together.toString()));
        Process driver = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(folder.resolve("log").toFile())
                .start();
        assertEquals(137, driver.waitFor(), Files.readString(folder.resolve("log")));
        assertFalse(Files.exists(together.resolve("config.json")), "the unfinished is no model");
        CheckpointOutcome outcome = job(together).run(dynamic());
        assertTrue(outcome.resumedFiles() >= 2, outcome.resumedFiles() + " files");
        ShardedModel.assertSame(alone, together);
    }

    @Test
    void another_request_does_not_go_on_with_unfinished_work(@TempDir Path folder) throws IOException {
        Path together = folder.resolve("together");
        ShardRequest failing = (m, o, job) -> CheckpointShards.of(
                Quantize.CheckpointRequest.of(m, o, Recipes.FP8_DYNAMIC),
                TaskContext.get() == null
                        ? job
                        : job.withListener((_, _, _, _) -> {
                            throw new IllegalStateException("out of luck");
                        }));
        assertThrows(IOException.class, () -> job(together).run(failing));
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> job(together)
                        .run((m, o, job) ->
                                CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.MXFP8), job)));
        assertTrue(e.what().contains("recipe differs"), e.what());
        job(together).overwriting().run(dynamic());
        ShardedModel.assertSame(alone(folder, Recipes.FP8_DYNAMIC), together);
    }

    @Test
    void two_runs_do_not_write_to_one_output(@TempDir Path folder) throws Exception {
        Path together = folder.resolve("together");
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch refused = new CountDownLatch(1);
        LATCHES.put(folder.toString(), List.of(begun, refused));
        String key = folder.toString();
        ShardRequest slow = (m, o, job) -> CheckpointShards.of(
                Quantize.CheckpointRequest.of(m, o, Recipes.FP8_DYNAMIC),
                TaskContext.get() == null ? job : job.withListener((_, _, _, _) -> meet(key)));
        Thread first = Thread.ofPlatform().start(() -> {
            try {
                job(together).run(slow);
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        });
        begun.await();
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, () -> job(together).run(dynamic()));
        refused.countDown();
        first.join();
        assertTrue(e.what().startsWith("another run writes to this output: application 'octet test'"), e.what());
        ShardedModel.assertSame(alone(folder, Recipes.FP8_DYNAMIC), together);
    }

    private static final Map<String, List<CountDownLatch>> LATCHES = new java.util.concurrent.ConcurrentHashMap<>();

    private static void meet(String key) {
        List<CountDownLatch> latches = Objects.requireNonNull(LATCHES.get(key));
        latches.getFirst().countDown();
        try {
            latches.getLast().await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void a_lock_of_another_machine_is_taken_over_two_minutes_after_its_last_renewal(@TempDir Path folder)
            throws IOException {
        Path together = folder.resolve("together");
        Path lock = Files.createDirectories(together.resolve(".octet-spark")).resolve("lock.json");
        Files.writeString(
                lock, "{\"token\": \"t\", \"owner\": \"application 'other'\", \"host\": \"elsewhere\", \"pid\": 1}");
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, () -> job(together).run(dynamic()));
        assertTrue(e.what().endsWith("application 'other' on elsewhere, process 1"), e.what());
        Files.setLastModifiedTime(lock, FileTime.from(Instant.now().minusSeconds(121)));
        job(together).run(dynamic());
        ShardedModel.assertSame(alone(folder, Recipes.FP8_DYNAMIC), together);
    }

    @Test
    void an_output_that_may_not_be_written_is_refused_before_any_work() {
        spark.hadoopConfiguration().set("fs.distant.impl", DistantFileSystem.class.getName());
        String output = "distant:" + shared + "/forbidden/out";
        AccessDeniedException e = assertThrows(
                AccessDeniedException.class,
                () -> new ShardJob(spark, model.toString(), output).run((m, o, job) -> {
                    assertTrue(TaskContext.get() == null, "no task begins");
                    return CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.FP8_DYNAMIC), job);
                }));
        assertEquals(output, e.getFile());
    }

    @Test
    void a_fault_of_the_model_ends_the_job_at_once_and_leaves_nothing(@TempDir Path folder) throws IOException {
        Path broken = ShardedModel.make(folder.resolve("broken"));
        try (Checkpoint checkpoint = Checkpoint.open(broken)) {
            StoredTensor weight = Objects.requireNonNull(checkpoint.tensor("model.layers.0.mlp.up_proj.weight"));
            try (RandomAccessFile file =
                    new RandomAccessFile(weight.shard().path().toFile(), "rw")) {
                file.seek(weight.position());
                file.write(new byte[] {(byte) 0xc0, 0x7f}); // NaN in BF16
            }
        }
        ATTEMPTS.set(0);
        Path output = folder.resolve("out");
        InvalidDataException e = assertThrows(
                InvalidDataException.class,
                () -> new ShardJob(spark, broken.toString(), output.toString()).run((m, o, job) -> {
                    ATTEMPTS.incrementAndGet();
                    return CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.FP8_DYNAMIC), job);
                }));
        assertTrue(e.where().contains("model.layers.0.mlp.up_proj.weight"), e.where());
        assertEquals(
                2, ATTEMPTS.get(), "the driver and the one process of tasks open the request, no attempt is repeated");
        assertFalse(Files.exists(output));
    }

    @Test
    void an_old_model_goes_only_when_the_new_one_is_complete(@TempDir Path folder) throws IOException {
        Path output = folder.resolve("out");
        job(output).run(dynamic());
        Map<String, byte[]> before = ShardedModel.files(output);
        assertThrows(InvalidOptionException.class, () -> job(output).run(dynamic()), "without permission");
        ShardRequest failing = (m, o, job) -> CheckpointShards.of(
                Quantize.CheckpointRequest.of(m, o, Recipes.MXFP8),
                TaskContext.get() == null
                        ? job
                        : job.withListener((_, _, _, _) -> {
                            throw new IllegalStateException("out of luck");
                        }));
        assertThrows(IOException.class, () -> job(output).overwriting().run(failing));
        Map<String, byte[]> after = ShardedModel.files(output);
        before.forEach((name, bytes) -> assertArrayEquals(bytes, after.get(name), name));
        job(output)
                .overwriting()
                .run((m, o, job) -> CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.MXFP8), job));
        ShardedModel.assertSame(alone(folder, Recipes.MXFP8), output);
    }

    @Test
    void a_request_that_takes_a_path_along_is_refused(@TempDir Path folder) {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> job(folder.resolve("out"))
                        .run((_, o, job) -> CheckpointShards.of(
                                Quantize.CheckpointRequest.of(folder, o, Recipes.FP8_DYNAMIC), job)));
        assertTrue(e.what().contains("Path, which does not travel"), e.what());
    }

    @Test
    void an_output_inside_the_model_is_refused() {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class, () -> job(model.resolve("inside")).run(dynamic()));
        assertTrue(e.what().contains("lies in"), e.what());
    }

    @Test
    void what_needs_the_whole_model_at_once_is_refused(@TempDir Path folder) {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> job(folder.resolve("out"))
                        .run((m, o, job) -> CheckpointShards.of(
                                Quantize.CheckpointRequest.of(m, o, Recipes.FP8_DYNAMIC)
                                        .with(Quantize.Choice.ALLOW_NONFINITE),
                                job)));
        assertTrue(e.fix().contains("--keep"), e.fix());
    }
}
