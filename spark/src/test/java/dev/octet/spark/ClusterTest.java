package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.pipeline.CheckpointShards;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;

/** Jobs whose executors are processes of their own. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@ResourceLock(SparkContexts.LOCK)
class ClusterTest {
    @TempDir
    private static Path shared;

    private static JavaSparkContext spark;
    private static Path model;

    @BeforeAll
    static void start_three_executors() throws IOException {
        model = ShardedModel.make(shared.resolve("model"));
        spark = SparkContexts.cluster(3);
    }

    @AfterAll
    static void stop() {
        spark.stop();
    }

    @Test
    void three_executors_write_the_bytes_of_one_process(@TempDir Path folder) throws IOException {
        Path alone = folder.resolve("alone");
        Quantize.run(Quantize.CheckpointRequest.of(model, alone, Recipes.FP8_DYNAMIC), Job.defaults());
        Path together = folder.resolve("together");
        CheckpointOutcome outcome = new ShardJob(spark, model.toString(), together.toString())
                .run((m, o, job) -> CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.FP8_DYNAMIC), job));
        ShardedModel.assertSame(alone, together);
        assertEquals(0, outcome.resumedFiles());
    }

    /** Ends the process in which the first task has nearly written its file. */
    private record Killed(String mark) implements ShardRequest {
        @Override
        public CheckpointShards open(Path m, Path o, Job job) throws IOException {
            Job killing = TaskContext.get() == null
                    ? job
                    : job.withListener((_, done, total, _) -> {
                        if (done >= total && isFirst()) {
                            Runtime.getRuntime().halt(137);
                        }
                    });
            return CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.FP8_DYNAMIC), killing);
        }

        private boolean isFirst() {
            try {
                Files.createFile(Path.of(mark));
                return true;
            } catch (FileAlreadyExistsException e) {
                return false;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    @Test
    void an_executor_that_is_killed_while_it_writes_changes_nothing(@TempDir Path folder) throws IOException {
        Path alone = folder.resolve("alone");
        Quantize.run(Quantize.CheckpointRequest.of(model, alone, Recipes.FP8_DYNAMIC), Job.defaults());
        Path together = folder.resolve("together");
        Path mark = folder.resolve("killed");
        new ShardJob(spark, model.toString(), together.toString()).run(new Killed(mark.toString()));
        assertTrue(Files.exists(mark), "an executor was killed");
        ShardedModel.assertSame(alone, together);
    }
}
