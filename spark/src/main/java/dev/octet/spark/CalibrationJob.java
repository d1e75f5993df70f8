package dev.octet.spark;

import dev.octet.converter.data.TextOptions;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.TemporaryFolder;
import dev.octet.pipeline.Calibrate;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.SampleSource;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.spark.hadoop.HadoopPaths;
import dev.octet.spark.hadoop.LocalCopies;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.util.SerializableConfiguration;
import org.jspecify.annotations.Nullable;

/**
 * calibrate on Spark: a task for each slice of the samples, statistics merged in a tree.
 *
 * <pre>{@code
 * Statistics statistics = new CalibrationJob(spark, "hdfs:/models/minilm.onnx", "hdfs:/data/texts.jsonl").run("hdfs:/minilm.stats");
 * }</pre>
 *
 * <p>Counts, ranges and histograms are those of one process with as many threads as a task; sums of squares are added in another order, always the
 * same for one {@code slice}, whatever the cluster.
 *
 * @param model an ONNX file, or a folder whose graph follows from its configuration; brought to each executor where it lies elsewhere
 * @param data {@code .npz} or {@code .jsonl}
 * @param tokenizer for texts; empty for the one in the model's folder, or next to its file
 * @param maxLength tokens after which a text is cut
 * @param slice samples of one task
 * @param force replace statistics that are there
 */
public record CalibrationJob(
        JavaSparkContext spark,
        String model,
        String data,
        Optional<String> tokenizer,
        int maxLength,
        int slice,
        boolean force) {
    /** Opening a model takes as long as some dozen samples; a multiple of the batch of one process, so that batches are alike. */
    public static final int DEFAULT_SLICE = 64;

    private static final int TREE_DEPTH = 2;

    /** Slices of the usual size. */
    public CalibrationJob(JavaSparkContext spark, String model, String data) {
        this(spark, model, data, Optional.empty(), TextOptions.defaults().maxLength(), DEFAULT_SLICE, false);
    }

    public CalibrationJob {
        if (slice < 1) {
            throw new IllegalArgumentException("slices of " + slice + " samples");
        }
    }

    /** The same with a tokenizer that lies elsewhere. */
    public CalibrationJob withTokenizer(String file) {
        return new CalibrationJob(spark, model, data, Optional.of(file), maxLength, slice, force);
    }

    /** The same texts, cut after so many tokens. */
    public CalibrationJob withMaxLength(int tokens) {
        return new CalibrationJob(spark, model, data, tokenizer, tokens, slice, force);
    }

    /** The same with so many samples in a task. */
    public CalibrationJob withSlice(int samples) {
        return new CalibrationJob(spark, model, data, tokenizer, maxLength, samples, force);
    }

    /** The same, replacing statistics that are there. */
    public CalibrationJob overwriting() {
        return new CalibrationJob(spark, model, data, tokenizer, maxLength, slice, true);
    }

    /**
     * What travels to executors.
     *
     * @param tokenizer null for the model's own
     */
    private record Task(
            String run,
            String model,
            String data,
            @Nullable String tokenizer,
            int maxLength,
            int slice,
            int threads,
            SerializableConfiguration hadoop)
            implements Serializable {
        /** The request in files of this machine. */
        Calibrate.Request request() throws IOException {
            SampleSource source =
                    SampleSource.of(LocalCopies.of(data, run, hadoop.value())).withMaxLength(maxLength);
            java.nio.file.Path local = LocalCopies.of(model, run, hadoop.value());
            return Calibrate.Request.of(
                    local,
                    local.resolveSibling("not-written.stats"),
                    tokenizer == null ? source : source.withTokenizer(LocalCopies.of(tokenizer, run, hadoop.value())));
        }

        MergedSlices measure(int number, int samples) throws IOException {
            int from = number * slice;
            Job job = Job.named("octet calibrate on Spark").withThreads(threads);
            try {
                return MergedSlices.of(number, Calibrate.part(request(), from, Math.min(slice, samples - from), job));
            } catch (LinkageError e) {
                throw JobFailure.of(e);
            }
        }
    }

    /**
     * Measures the model and writes the statistics.
     *
     * @param output a file to make, in any file system
     * @throws OctetException when model and samples do not fit together, or the output exists
     * @throws IOException when reading or writing fails
     */
    public Statistics run(String output) throws IOException {
        Configuration hadoop = spark.hadoopConfiguration();
        Path target = HadoopPaths.absolute(output, hadoop);
        FileSystem files = HadoopPaths.fileSystem(target, hadoop);
        if (files.exists(target) && !force) {
            throw new InvalidOptionException(
                    "'" + target + "' exists", "--output", "choose another name, or overwrite it with --force");
        }
        Statistics statistics = run();
        try (TemporaryFolder folder = TemporaryFolder.create("statistics")) {
            java.nio.file.Path local = folder.path().resolve("statistics");
            StatisticsFile.write(statistics, local);
            Path part = new Path(target.getParent(), "." + target.getName() + "." + UUID.randomUUID() + ".part");
            files.copyFromLocalFile(false, true, new Path(local.toUri()), part);
            if (force) {
                files.delete(target, false);
            }
            if (!files.rename(part, target)) {
                files.delete(part, false);
                throw new IOException("'" + part + "' could not be renamed to '" + target.getName() + "'");
            }
        }
        return statistics;
    }

    /**
     * Measures the model.
     *
     * @throws OctetException when model and samples do not fit together
     * @throws IOException when reading fails
     */
    public Statistics run() throws IOException {
        Configuration hadoop = spark.hadoopConfiguration();
        String run = UUID.randomUUID().toString();
        Task task = new Task(
                run,
                HadoopPaths.absolute(model, hadoop).toString(),
                HadoopPaths.absolute(data, hadoop).toString(),
                tokenizer.isPresent()
                        ? HadoopPaths.absolute(tokenizer.get(), hadoop).toString()
                        : null,
                maxLength,
                slice,
                spark.getConf().getInt("spark.task.cpus", 1),
                new SerializableConfiguration(hadoop));
        DataPart whole = Calibrate.data(task.request(), Job.named("octet calibrate on Spark"));
        int samples = Math.toIntExact(whole.samplesTotal());
        List<Integer> numbers = new ArrayList<>();
        for (int from = 0; from < samples; from += slice) {
            numbers.add(from / slice);
        }
        spark.setJobGroup(run, "calibrating " + model + ": " + samples + " samples", true);
        try {
            JavaRDD<MergedSlices> slices =
                    spark.parallelize(numbers, numbers.size()).map(number -> task.measure(number, samples));
            Statistics merged = slices.treeReduce(MergedSlices::and, TREE_DEPTH).whole();
            return Statistics.of(merged.modelDigest(), whole, merged.tensors());
        } catch (Exception e) { // Scala's methods declare none and throw any
            throw JobFailure.of(e);
        } finally {
            spark.clearJobGroup();
        }
    }
}
