package dev.octet.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.pipeline.CheckpointShards;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.quant.recipe.Recipes;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.ResourceLock;

/** HDFS itself, in this process; its library of 56 MB comes with the profile {@code sweep}, so it is looked up by name. */
@Tag("sweep")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@ResourceLock(SparkContexts.LOCK)
class HdfsTest {
    @Test
    void a_model_in_hdfs_becomes_one_in_hdfs_with_the_bytes_of_one_process(@TempDir Path folder) throws Exception {
        Path model = ShardedModel.make(folder.resolve("model"));
        Quantize.run(Quantize.CheckpointRequest.of(model, folder.resolve("alone"), Recipes.FP8_BLOCK), Job.defaults());
        Configuration conf = new Configuration();
        conf.set("hdfs.minidfs.basedir", folder.resolve("hdfs").toString());
        Class<?> builder = Class.forName("org.apache.hadoop.hdfs.MiniDFSCluster$Builder");
        try (AutoCloseable cluster = (AutoCloseable) builder.getMethod("build")
                        .invoke(builder.getConstructor(Configuration.class).newInstance(conf));
                JavaSparkContext spark = SparkContexts.local()) {
            cluster.getClass().getMethod("waitActive").invoke(cluster);
            FileSystem files =
                    (FileSystem) cluster.getClass().getMethod("getFileSystem").invoke(cluster);
            files.copyFromLocalFile(
                    new org.apache.hadoop.fs.Path(model.toUri()), new org.apache.hadoop.fs.Path("/model"));
            String root = files.getUri().toString();
            CheckpointOutcome outcome = new ShardJob(spark, root + "/model", root + "/together")
                    .run((m, o, job) ->
                            CheckpointShards.of(Quantize.CheckpointRequest.of(m, o, Recipes.FP8_BLOCK), job));
            assertTrue(outcome.output().startsWith("hdfs://"), outcome.output());
            files.copyToLocalFile(
                    false,
                    new org.apache.hadoop.fs.Path("/together"),
                    new org.apache.hadoop.fs.Path(folder.resolve("together").toUri()),
                    true);
            ShardedModel.assertSame(folder.resolve("alone"), folder.resolve("together"));
            assertEquals(
                    outcome.weights().size(),
                    new DiffJob(spark, root + "/model", root + "/together")
                            .run().tensors().stream()
                                    .filter(t -> t.schemeB().contains("E4M3FN"))
                                    .count());
        }
    }
}
