package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.pipeline.Calibrate;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.SampleSource;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;

/** Statistics taken in slices. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@ResourceLock(SparkContexts.LOCK)
class CalibrationJobTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    /** Sums of squares are added in another order: some 100 additions of 2^-53 each. */
    private static final double SUMS = 1e-13;

    @TempDir
    private static Path shared;

    private static JavaSparkContext spark;
    private static Path model;
    private static Path texts;
    private static Statistics alone;

    @BeforeAll
    static void start() throws IOException {
        model = Files.createDirectory(shared.resolve("llama"));
        for (String file : List.of("config.json", "model.safetensors")) {
            Files.copy(TESTDATA.resolve("models/tiny-hf/llama").resolve(file), model.resolve(file));
        }
        Files.copy(TESTDATA.resolve("tokenizer/words.json"), model.resolve("tokenizer.json"));
        texts = Files.writeString(
                shared.resolve("texts.jsonl"),
                "{\"text\": \"the cat sat on the mat\"}\n{\"text\": \"dog\"}\n{\"text\": \"a dog ran far\"}\n"
                        .repeat(10));
        Path file = shared.resolve("alone.stats");
        Calibrate.run(
                Calibrate.Request.of(model, file, SampleSource.of(texts)),
                Job.defaults().withThreads(1));
        alone = StatisticsFile.read(file);
        spark = SparkContexts.local();
    }

    @AfterAll
    static void stop() {
        spark.stop();
    }

    @Test
    void slices_have_the_counts_ranges_and_histograms_of_one_process() throws IOException {
        Path output = shared.resolve("together.stats");
        new CalibrationJob(spark, model.toString(), texts.toString())
                .withSlice(4)
                .run(output.toString());
        Statistics together = StatisticsFile.read(output);
        assertEquals(alone.data(), together.data());
        assertEquals(alone.modelDigest(), together.modelDigest());
        assertEquals(
                List.copyOf(alone.tensors().keySet()),
                List.copyOf(together.tensors().keySet()));
        alone.tensors().forEach((name, expected) -> {
            TensorStatistics t = Objects.requireNonNull(together.tensors().get(name));
            assertEquals(expected.count(), t.count(), name);
            assertEquals(expected.zeros(), t.zeros(), name);
            assertEquals(expected.min(), t.min(), name);
            assertEquals(expected.max(), t.max(), name);
            assertEquals(expected.histogram(), t.histogram(), name);
            assertEquals(expected.negatives(), t.negatives(), name);
            assertEquals(expected.sumOfSquares(), t.sumOfSquares(), SUMS * expected.sumOfSquares(), name);
        });
    }

    @Test
    void the_order_in_which_slices_arrive_changes_no_bit() throws IOException {
        List<MergedSlices> slices = new ArrayList<>();
        for (int i = 0; i < 7; i++) {
            slices.add(MergedSlices.of(
                    i,
                    Calibrate.part(
                            Calibrate.Request.of(model, shared.resolve("none"), SampleSource.of(texts)),
                            4 * i,
                            4,
                            Job.defaults().withThreads(1))));
        }
        Statistics expected =
                slices.stream().reduce(MergedSlices::and).orElseThrow().whole();
        for (int seed = 0; seed < 5; seed++) {
            List<MergedSlices> shuffled = new ArrayList<>(slices);
            Random random = new Random(seed);
            Collections.shuffle(shuffled, random);
            while (shuffled.size() > 1) { // a tree of its own
                MergedSlices a = shuffled.remove(random.nextInt(shuffled.size()));
                MergedSlices b = shuffled.remove(random.nextInt(shuffled.size()));
                shuffled.add(a.and(b));
            }
            assertEquals(expected.tensors(), shuffled.getFirst().whole().tensors(), "seed " + seed);
        }
    }

    @Test
    void a_model_and_data_in_a_file_system_of_hadoop_are_brought_to_executors() throws IOException {
        spark.hadoopConfiguration().set("fs.distant.impl", DistantFileSystem.class.getName());
        Statistics statistics = new CalibrationJob(spark, "distant:" + model, "distant:" + texts)
                .withSlice(16)
                .run("distant:" + shared + "/distant.stats");
        assertEquals(alone.tensors().keySet(), statistics.tensors().keySet());
        assertEquals(30, StatisticsFile.read(shared.resolve("distant.stats")).samplesDone());
    }

    @Test
    void statistics_that_are_there_are_not_overwritten() throws IOException {
        Path there = Files.writeString(shared.resolve("there.stats"), "mine");
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> new CalibrationJob(spark, model.toString(), texts.toString()).run(there.toString()));
        assertTrue(e.what().endsWith("exists"), e.what());
        assertEquals("mine", Files.readString(there));
    }

    @Test
    void a_sample_that_does_not_fit_is_told_as_by_one_process() throws IOException {
        Path bad = Files.writeString(shared.resolve("bad.jsonl"), "{\"text\": \"dog\"}\n{\"txt\": \"cat\"}\n");
        OctetException expected = assertThrows(
                InvalidDataException.class,
                () -> Calibrate.run(
                        Calibrate.Request.of(model, shared.resolve("bad.stats"), SampleSource.of(bad)),
                        Job.defaults()));
        OctetException e = assertThrows(
                InvalidDataException.class, () -> new CalibrationJob(spark, model.toString(), bad.toString()).run());
        assertEquals(expected.what(), e.what());
    }
}
