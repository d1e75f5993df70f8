package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.converter.compare.CompareOptions;
import dev.octet.converter.compare.ModelDiff;
import dev.octet.converter.compare.TensorComparison;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;

/** Comparisons whose pairs are shared out. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@ResourceLock(SparkContexts.LOCK)
class DiffJobTest {
    @TempDir
    private static Path shared;

    private static JavaSparkContext spark;
    private static Path model;
    private static Path quantized;

    @BeforeAll
    static void start() throws IOException {
        model = ShardedModel.make(shared.resolve("model"));
        quantized = shared.resolve("block");
        Quantize.run(Quantize.CheckpointRequest.of(model, quantized, Recipes.FP8_BLOCK), Job.defaults());
        spark = SparkContexts.local();
    }

    @AfterAll
    static void stop() {
        spark.stop();
    }

    @Test
    void the_difference_is_that_of_one_process_to_the_bit() throws IOException {
        ModelDiff expected = TensorComparison.compare(model, quantized, CompareOptions.defaults());
        assertEquals(expected, new DiffJob(spark, model.toString(), quantized.toString()).run());
    }

    @Test
    void a_file_system_of_hadoop_is_read() throws IOException {
        spark.hadoopConfiguration().set("fs.distant.impl", DistantFileSystem.class.getName());
        ModelDiff expected = TensorComparison.compare(model, quantized, CompareOptions.defaults());
        ModelDiff diff = new DiffJob(spark, "distant:" + model, "distant:" + quantized).run();
        assertEquals(expected.tensors(), diff.tensors());
        assertEquals(expected.summary(), diff.summary());
    }

    @Test
    void a_pattern_that_matches_nothing_is_refused() {
        assertThrows(
                InvalidOptionException.class,
                () -> new DiffJob(spark, model.toString(), quantized.toString(), Optional.of("no.such.weight")).run());
    }
}
