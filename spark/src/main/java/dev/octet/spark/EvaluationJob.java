package dev.octet.spark;

import dev.octet.converter.data.TextOptions;
import dev.octet.formats.error.OctetException;
import dev.octet.pipeline.Evaluate;
import dev.octet.pipeline.Gates;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.SampleSource;
import dev.octet.spark.hadoop.HadoopPaths;
import dev.octet.spark.hadoop.LocalCopies;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.util.SerializableConfiguration;
import org.jspecify.annotations.Nullable;

/**
 * evaluate on Spark: two models over the same samples, a task for each slice of them.
 *
 * <pre>{@code
 * Evaluate.Result result = new EvaluationJob(spark, "hdfs:/models/minilm.onnx", "hdfs:/models/minilm-fp8.onnx", "hdfs:/data/held.jsonl").run();
 * }</pre>
 *
 * <p>The result is that of one process with as many threads as a task, to the bit; with perplexities, for which one process makes other batches, but for the rounding of runtimes.
 *
 * @param reference an ONNX file, or a folder whose graph follows from its configuration; brought to each executor where it lies elsewhere
 * @param candidate the same
 * @param data {@code .npz} or {@code .jsonl}
 * @param tokenizer for texts; empty for the one in the reference's folder, or next to its file
 * @param maxLength tokens after which a text is cut
 * @param slice samples of one task
 * @param parts what is compared besides the outputs; layers are by the task with the first samples
 * @param gates what the candidate must reach
 */
public record EvaluationJob(
        JavaSparkContext spark,
        String reference,
        String candidate,
        String data,
        Optional<String> tokenizer,
        int maxLength,
        int slice,
        Set<Evaluate.Part> parts,
        Gates gates) {
    public EvaluationJob {
        if (slice < 1) {
            throw new IllegalArgumentException("slices of " + slice + " samples");
        }
        parts = Set.copyOf(parts);
    }

    /** Outputs and layers of two models, slices of the usual size, no gates. */
    public EvaluationJob(JavaSparkContext spark, String reference, String candidate, String data) {
        this(
                spark,
                reference,
                candidate,
                data,
                Optional.empty(),
                TextOptions.defaults().maxLength(),
                CalibrationJob.DEFAULT_SLICE,
                Set.of(Evaluate.Part.LAYERS),
                Gates.NONE);
    }

    /** The same with a tokenizer that lies elsewhere. */
    public EvaluationJob withTokenizer(String file) {
        return new EvaluationJob(spark, reference, candidate, data, Optional.of(file), maxLength, slice, parts, gates);
    }

    /** The same texts, cut after so many tokens. */
    public EvaluationJob withMaxLength(int tokens) {
        return new EvaluationJob(spark, reference, candidate, data, tokenizer, tokens, slice, parts, gates);
    }

    /** The same with so many samples in a task. */
    public EvaluationJob withSlice(int samples) {
        return new EvaluationJob(spark, reference, candidate, data, tokenizer, maxLength, samples, parts, gates);
    }

    /** The same with these parts besides the outputs. */
    public EvaluationJob withParts(Set<Evaluate.Part> wanted) {
        return new EvaluationJob(spark, reference, candidate, data, tokenizer, maxLength, slice, wanted, gates);
    }

    /** The same with gates. */
    public EvaluationJob withGates(Gates wanted) {
        return new EvaluationJob(spark, reference, candidate, data, tokenizer, maxLength, slice, parts, wanted);
    }

    /**
     * What travels to executors.
     *
     * @param tokenizer null for the reference's own
     * @param gates limits by name
     */
    private record Task(
            String run,
            String reference,
            String candidate,
            String data,
            @Nullable String tokenizer,
            int maxLength,
            int threads,
            EnumSet<Evaluate.Part> parts,
            Map<String, Double> gates,
            SerializableConfiguration hadoop)
            implements Serializable {
        /** The request in files of this machine. */
        Evaluate.Request request() throws IOException {
            SampleSource source = SampleSource.of(local(data)).withMaxLength(maxLength);
            return new Evaluate.Request(
                    local(reference),
                    local(candidate),
                    tokenizer == null ? source : source.withTokenizer(local(tokenizer)),
                    parts,
                    new Gates(gates),
                    Optional.empty());
        }

        private Path local(String name) throws IOException {
            return LocalCopies.of(name, run, hadoop.value());
        }

        Job job() {
            return Job.named("octet evaluate on Spark").withThreads(threads);
        }

        Evaluate.Share share(int from, int count) throws IOException {
            try {
                return Evaluate.share(request(), from, count, job());
            } catch (LinkageError e) {
                throw JobFailure.of(e);
            }
        }
    }

    /**
     * Compares the models.
     *
     * @throws OctetException when a model cannot be run, or the samples do not fit
     * @throws IOException when reading fails
     */
    public Evaluate.Result run() throws IOException {
        long start = System.nanoTime();
        Configuration hadoop = spark.hadoopConfiguration();
        String run = UUID.randomUUID().toString();
        EnumSet<Evaluate.Part> wanted = EnumSet.noneOf(Evaluate.Part.class);
        wanted.addAll(parts);
        Task task = new Task(
                run,
                HadoopPaths.absolute(reference, hadoop).toString(),
                HadoopPaths.absolute(candidate, hadoop).toString(),
                HadoopPaths.absolute(data, hadoop).toString(),
                tokenizer.isPresent()
                        ? HadoopPaths.absolute(tokenizer.get(), hadoop).toString()
                        : null,
                maxLength,
                spark.getConf().getInt("spark.task.cpus", 1),
                wanted,
                gates.limits(),
                new SerializableConfiguration(hadoop));
        int samples = Evaluate.samples(task.request(), task.job());
        int size = slice;
        List<Integer> starts = IntStream.range(0, Math.ceilDiv(samples, size))
                .map(i -> i * size)
                .boxed()
                .toList();
        spark.setJobGroup(run, "evaluating " + candidate + ": " + samples + " samples", true);
        try {
            List<Evaluate.Share> shares = spark.parallelize(starts, starts.size())
                    .map(from -> task.share(from, Math.min(size, samples - from)))
                    .collect();
            Evaluate.Request named = new Evaluate.Request(
                    Path.of(reference),
                    Path.of(candidate),
                    SampleSource.of(Path.of(data)),
                    parts,
                    gates,
                    Optional.empty());
            return Evaluate.joined(named, data, shares, (System.nanoTime() - start) / 1e9);
        } catch (Exception e) { // Scala's methods declare none and throw any
            throw JobFailure.of(e);
        } finally {
            spark.clearJobGroup();
        }
    }
}
