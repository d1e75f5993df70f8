package dev.octet.spark;

import dev.octet.converter.checkpoint.AuxiliaryFiles;
import dev.octet.converter.checkpoint.ShardPlan;
import dev.octet.converter.checkpoint.WrittenShard;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.TemporaryFolder;
import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.pipeline.CheckpointShards;
import dev.octet.pipeline.Job;
import dev.octet.spark.hadoop.HadoopPaths;
import dev.octet.spark.output.OutputFolder;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.NotSerializableException;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import java.io.Serializable;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.JobExecutionStatus;
import org.apache.spark.SimpleFutureAction;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkJobInfo;
import org.apache.spark.SparkStageInfo;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.util.LongAccumulator;
import org.apache.spark.util.SerializableConfiguration;
import org.jspecify.annotations.Nullable;
import scala.Function0;
import scala.Function1;
import scala.Function2;
import scala.Option;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;
import scala.util.Failure;
import scala.util.Try;

/**
 * quantize, dequantize or convert of a checkpoint on Spark: a task for each file of the output.
 *
 * <pre>{@code
 * CheckpointOutcome outcome = new ShardJob(spark, "hdfs:/models/llama", "hdfs:/models/llama-fp8")
 *         .run((model, output, job) ->
 *                 CheckpointShards.of(Quantize.CheckpointRequest.of(model, output, Recipes.FP8_DYNAMIC), job));
 * }</pre>
 *
 * <p>The bytes are those of one process. Tasks write under names of their own, and the driver alone gives files their place, so repeated and
 * speculative tasks are harmless; a run that was killed goes on where it was when the same request comes again; two runs do not write to one
 * output. See {@link OutputFolder}.
 *
 * @param model a safetensors file, an index or a folder, in any file system that driver and executors reach
 * @param output a folder to make
 * @param force replace a model that is there
 */
public record ShardJob(JavaSparkContext spark, String model, String output, boolean force) {
    private static final long POLL_MILLIS = 20;
    private static final int QUIET_POLLS = 3;
    private static final long END_NANOS = TimeUnit.SECONDS.toNanos(30);

    /** Nothing is overwritten. */
    public ShardJob(JavaSparkContext spark, String model, String output) {
        this(spark, model, output, false);
    }

    /** The same, replacing a model that is there once the new one is complete. */
    public ShardJob overwriting() {
        return new ShardJob(spark, model, output, true);
    }

    /**
     * Does it.
     *
     * @throws OctetException when the model is malformed, the request does not fit it, or the output is not free
     * @throws IOException when reading or writing fails on the driver, or four times on executors; the same call goes on
     */
    public CheckpointOutcome run(ShardRequest request) throws IOException {
        long start = System.nanoTime();
        requireTravels(request);
        Configuration hadoop = spark.hadoopConfiguration();
        Path target = HadoopPaths.absolute(output, hadoop);
        String source = HadoopPaths.absolute(model, hadoop).toString();
        String run = UUID.randomUUID().toString();
        try (CheckpointShards shards = open(request, source, target, hadoop)) {
            shards.requireApart(HadoopPaths.of(target.toString(), hadoop));
            try (OutputFolder folder =
                    OutputFolder.open(target, hadoop, shards.identity(), application(), run, force)) {
                int resumed = folder.finished().size();
                List<WrittenShard> written;
                try {
                    written = write(request, source, shards, folder, run);
                } catch (OctetException e) {
                    folder.discard(); // the same request would stop again
                    throw e;
                }
                AuxiliaryFiles rest = publish(shards, folder);
                return shards.outcome(target.toString(), written, resumed, rest, (System.nanoTime() - start) / 1e9);
            } finally {
                OpenRequests.end(run);
            }
        }
    }

    /** Says now what Spark would say in a trace of a hundred lines. */
    private static void requireTravels(ShardRequest request) throws IOException {
        try (ObjectOutputStream nowhere = new ObjectOutputStream(OutputStream.nullOutputStream())) {
            nowhere.writeObject(request);
        } catch (NotSerializableException e) {
            throw new InvalidOptionException(
                    "the request takes along a " + e.getMessage() + ", which does not travel to executors",
                    "the request of a ShardJob",
                    "take strings along, and make paths and recipes inside",
                    e);
        }
    }

    /** Says what {@link #run} would do; reads headers, writes nothing. */
    public CheckpointOutcome plan(ShardRequest request) throws IOException {
        Configuration hadoop = spark.hadoopConfiguration();
        Path target = HadoopPaths.absolute(output, hadoop);
        try (CheckpointShards shards =
                open(request, HadoopPaths.absolute(model, hadoop).toString(), target, hadoop)) {
            return shards.planned(target.toString());
        }
    }

    private static CheckpointShards open(ShardRequest request, String source, Path target, Configuration hadoop)
            throws IOException {
        return request.open(
                HadoopPaths.of(source, hadoop), HadoopPaths.of(target.toString(), hadoop), Job.named("octet on Spark"));
    }

    private String application() {
        return "application '" + spark.appName() + "' (" + spark.sc().applicationId() + ")";
    }

    private static AuxiliaryFiles publish(CheckpointShards shards, OutputFolder folder) throws IOException {
        try (TemporaryFolder temporary = TemporaryFolder.create("spark")) {
            java.nio.file.Path made = Files.createDirectory(temporary.path().resolve("model"));
            AuxiliaryFiles rest = shards.writeRest(made);
            folder.publish(made);
            return rest;
        }
    }

    private List<WrittenShard> write(
            ShardRequest request, String source, CheckpointShards shards, OutputFolder folder, String run)
            throws IOException {
        Set<String> finished = folder.finished();
        // the largest first: the last tasks to end are short ones
        List<String> names = shards.plans().stream()
                .filter(s -> !finished.contains(s.name()))
                .sorted(Comparator.comparingLong(ShardPlan::sourceBytes).reversed())
                .map(ShardPlan::name)
                .toList();
        if (names.isEmpty()) {
            return List.of();
        }
        LongAccumulator bytes = spark.sc().longAccumulator("bytes " + shards.task());
        ShardTask task = new ShardTask(
                run,
                request,
                source,
                output,
                folder.attempts().toString(),
                new SerializableConfiguration(spark.hadoopConfiguration()),
                spark.getConf().getInt("spark.task.cpus", 1),
                bytes);
        spark.setJobGroup(
                run,
                shards.task() + " " + source + ": " + names.size() + " of "
                        + shards.plans().size() + " files",
                true);
        try {
            return collect(spark.parallelize(names, names.size()), task, folder);
        } finally {
            spark.clearJobGroup();
        }
    }

    /** A function that Spark sends to executors. */
    private interface Sent<A, B> extends Function1<A, B>, Serializable {}

    /** Runs the tasks and takes each file as soon as its task ends, so that a driver that is killed has lost little. */
    private static List<WrittenShard> collect(JavaRDD<String> names, ShardTask task, OutputFolder folder)
            throws IOException {
        List<Object> partitions = new ArrayList<>();
        for (int i = 0; i < names.getNumPartitions(); i++) {
            partitions.add(i);
        }
        BlockingQueue<ShardTask.Answer> answers = new LinkedBlockingQueue<>();
        Sent<Iterator<String>, ShardTask.Answer> work = it -> {
            try {
                return task.write(it.next());
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        };
        Function2<Object, ShardTask.Answer, BoxedUnit> heard = (_, answer) -> {
            answers.add(answer);
            return BoxedUnit.UNIT;
        };
        Function0<BoxedUnit> nothing = () -> BoxedUnit.UNIT;
        SimpleFutureAction<BoxedUnit> action = names.rdd()
                .sparkContext()
                .submitJob(
                        names.rdd(),
                        work,
                        CollectionConverters.asScala(partitions).toSeq(),
                        heard,
                        nothing);
        List<WrittenShard> written = new ArrayList<>();
        try {
            while (written.size() < partitions.size()) {
                boolean over = action.isCompleted(); // asked first: what was heard before is in the queue then
                ShardTask.Answer answer = answers.poll(over ? 0 : POLL_MILLIS, TimeUnit.MILLISECONDS);
                if (answer != null) {
                    written.add(taken(answer, folder));
                } else if (over) {
                    throw failure(action);
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw (IOException) new InterruptedIOException("the driver was interrupted").initCause(e);
        } finally {
            action.cancel();
            awaitEnd(names.rdd().sparkContext(), action);
        }
        return written;
    }

    /**
     * Waits for tasks that were cut off or came second: a file system may make folders anew for what they still write. Spark's account of tasks comes later than they
     * do, in the order of events: once the job's end is in it, so are the tasks that began before; one that was on its way is soon after.
     */
    private static void awaitEnd(SparkContext spark, SimpleFutureAction<BoxedUnit> action) {
        long deadline = System.nanoTime() + END_NANOS;
        int quiet = 0;
        while (quiet < QUIET_POLLS && System.nanoTime() < deadline) {
            quiet = isActive(spark, action) ? 0 : quiet + 1;
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(POLL_MILLIS));
        }
    }

    private static boolean isActive(SparkContext spark, SimpleFutureAction<BoxedUnit> action) {
        for (Object job : CollectionConverters.asJava(action.jobIds())) {
            Option<SparkJobInfo> info = spark.statusTracker().getJobInfo((Integer) job);
            if (!info.isDefined() || info.get().status() == JobExecutionStatus.RUNNING) {
                return true;
            }
            for (int stage : info.get().stageIds()) {
                Option<SparkStageInfo> stageInfo = spark.statusTracker().getStageInfo(stage);
                if (stageInfo.isDefined() && stageInfo.get().numActiveTasks() > 0) {
                    return true;
                }
            }
        }
        return false;
    }

    private static WrittenShard taken(ShardTask.Answer answer, OutputFolder folder) throws IOException {
        if (answer.refused() != null) {
            throw answer.refused();
        }
        WrittenShard written = Objects.requireNonNull(answer.written());
        folder.commit(written.name(), written.bytes(), new Path(answer.attempt()));
        return written;
    }

    private static IOException failure(SimpleFutureAction<BoxedUnit> action) {
        @Nullable
        Try<BoxedUnit> value = action.value().isDefined() ? action.value().get() : null;
        Throwable cause = value instanceof Failure<BoxedUnit> failure ? failure.exception() : null;
        return cause == null ? new IOException("Spark ended the job") : JobFailure.of(cause);
    }
}
