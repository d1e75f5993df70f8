package dev.octet.spark;

import dev.octet.converter.compare.CompareOptions;
import dev.octet.converter.compare.ComparedPairs;
import dev.octet.converter.compare.ModelDiff;
import dev.octet.converter.compare.TensorComparison;
import dev.octet.formats.error.OctetException;
import dev.octet.spark.hadoop.HadoopPaths;
import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.util.SerializableConfiguration;
import org.jspecify.annotations.Nullable;

/**
 * diff on Spark: two checkpoints tensor by tensor, each task with a share of the pairs. The result is that of one process, to the bit.
 *
 * <pre>{@code
 * ModelDiff diff = new DiffJob(spark, "hdfs:/models/llama", "hdfs:/models/llama-fp8").run();
 * }</pre>
 *
 * @param a the first model, in any file system that driver and executors reach
 * @param b the second
 * @param only compare pairs in which the name of either weight has a match of this regular expression; empty for all
 */
public record DiffJob(JavaSparkContext spark, String a, String b, Optional<String> only) {
    /** More tasks than cores, so that a few large weights do not keep all waiting. */
    static final int TASKS_FOR_CORE = 4;

    /** All weights. */
    public DiffJob(JavaSparkContext spark, String a, String b) {
        this(spark, a, b, Optional.empty());
    }

    /**
     * Compares.
     *
     * @throws OctetException when a file is malformed, or the models have no weight in common
     * @throws IOException when a file cannot be read
     */
    public ModelDiff run() throws IOException {
        Configuration hadoop = spark.hadoopConfiguration();
        String pattern = only.orElse(null);
        int pairs = TensorComparison.pairs(HadoopPaths.of(a, hadoop), HadoopPaths.of(b, hadoop), options(pattern, 1));
        int parts = Math.clamp((long) TASKS_FOR_CORE * spark.defaultParallelism(), 1, pairs);
        List<ComparedPairs> compared = compare(pattern, parts);
        return TensorComparison.joined(
                HadoopPaths.of(a, hadoop), HadoopPaths.of(b, hadoop), options(pattern, 1), compared);
    }

    private List<ComparedPairs> compare(@Nullable String pattern, int parts) throws IOException {
        String first = a;
        String second = b;
        int threads = spark.getConf().getInt("spark.task.cpus", 1);
        SerializableConfiguration hadoop = new SerializableConfiguration(spark.hadoopConfiguration());
        spark.setJobGroup(UUID.randomUUID().toString(), "comparing " + a + " with " + b, true);
        try {
            return spark.parallelize(IntStream.range(0, parts).boxed().toList(), parts)
                    .map(part -> TensorComparison.part(
                            HadoopPaths.of(first, hadoop.value()),
                            HadoopPaths.of(second, hadoop.value()),
                            options(pattern, threads),
                            part,
                            parts))
                    .collect();
        } catch (Exception e) { // Scala's methods declare none and throw any
            throw JobFailure.of(e);
        } finally {
            spark.clearJobGroup();
        }
    }

    private static CompareOptions options(@Nullable String pattern, int threads) {
        CompareOptions options = CompareOptions.defaults().withThreads(threads);
        return pattern == null ? options : options.withOnly(Pattern.compile(pattern));
    }
}
