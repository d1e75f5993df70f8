package dev.octet.spark;

import dev.octet.converter.compare.ModelDiff;
import dev.octet.converter.verify.Consumer;
import dev.octet.converter.verify.Verification;
import dev.octet.converter.verify.VerifiedPart;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.error.OctetException;
import dev.octet.spark.hadoop.HadoopPaths;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.util.SerializableConfiguration;
import org.jspecify.annotations.Nullable;

/**
 * verify on Spark: a checkpoint against what its consumers demand. Its weights, and the original's, are read by tasks; the driver reads headers and scales, and judges.
 *
 * <pre>{@code
 * Verification found = new VerifyJob(spark, "hdfs:/models/llama-fp8").withOriginal("hdfs:/models/llama").run();
 * }</pre>
 *
 * <p>The verdict is that of one process.
 *
 * @param model a checkpoint, in any file system that driver and executors reach
 * @param original the model this one was made from; empty without
 * @param consumers for whom; empty for those that load its layout
 * @param tensorParallel numbers of devices that the model must split onto
 * @param deep whether to read the weights, too
 */
public record VerifyJob(
        JavaSparkContext spark,
        String model,
        Optional<String> original,
        Set<Consumer> consumers,
        List<Integer> tensorParallel,
        boolean deep) {
    public VerifyJob {
        consumers = Set.copyOf(consumers);
        tensorParallel = List.copyOf(tensorParallel);
    }

    /** For those that load its layout, weights and all. */
    public VerifyJob(JavaSparkContext spark, String model) {
        this(spark, model, Optional.empty(), Set.of(), List.of(), true);
    }

    /** The same with the original to compare with. */
    public VerifyJob withOriginal(String path) {
        return new VerifyJob(spark, model, Optional.of(path), consumers, tensorParallel, deep);
    }

    /** The same for these consumers. */
    public VerifyJob withConsumers(Set<Consumer> wanted) {
        return new VerifyJob(spark, model, original, wanted, tensorParallel, deep);
    }

    /** The same for these numbers of devices. */
    public VerifyJob withTensorParallel(List<Integer> devices) {
        return new VerifyJob(spark, model, original, consumers, devices, deep);
    }

    /** The same, reading weights or not. */
    public VerifyJob withDeep(boolean wanted) {
        return new VerifyJob(spark, model, original, consumers, tensorParallel, wanted);
    }

    /**
     * Verifies.
     *
     * @throws OctetException when nothing of the model can be read, or it has no weight in common with the original
     * @throws IOException when a file is not there or cannot be read
     */
    public Verification run() throws IOException {
        Configuration hadoop = spark.hadoopConfiguration();
        VerifyOptions options = options(original.orElse(null), hadoop, 1)
                .withConsumers(consumers)
                .withTensorParallel(tensorParallel);
        if (!deep) {
            return Verifier.verify(HadoopPaths.of(model, hadoop), options.withDeep(false));
        }
        Optional<ModelDiff> diff =
                original.isPresent() ? Optional.of(new DiffJob(spark, original.get(), model).run()) : Optional.empty();
        return Verifier.joined(HadoopPaths.of(model, hadoop), options, diff, read());
    }

    private List<VerifiedPart> read() throws IOException {
        String read = model;
        String from = original.orElse(null);
        int threads = spark.getConf().getInt("spark.task.cpus", 1);
        int parts = Math.max(1, DiffJob.TASKS_FOR_CORE * spark.defaultParallelism());
        SerializableConfiguration hadoop = new SerializableConfiguration(spark.hadoopConfiguration());
        spark.setJobGroup(UUID.randomUUID().toString(), "verifying " + model, true);
        try {
            return spark.parallelize(IntStream.range(0, parts).boxed().toList(), parts)
                    .map(part -> Verifier.part(
                            HadoopPaths.of(read, hadoop.value()), options(from, hadoop.value(), threads), part, parts))
                    .collect();
        } catch (Exception e) { // Scala's methods declare none and throw any
            throw JobFailure.of(e);
        } finally {
            spark.clearJobGroup();
        }
    }

    private static VerifyOptions options(@Nullable String from, Configuration hadoop, int threads) throws IOException {
        VerifyOptions options = VerifyOptions.defaults().withDeep(true).withThreads(threads);
        return from == null ? options : options.withOriginal(HadoopPaths.of(from, hadoop));
    }
}
