package dev.octet.spark;

import dev.octet.converter.checkpoint.WrittenShard;
import dev.octet.formats.error.OctetException;
import dev.octet.pipeline.CheckpointShards;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.TaskListener;
import dev.octet.spark.hadoop.HadoopPaths;
import java.io.IOException;
import java.io.Serializable;
import java.net.URLEncoder;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardOpenOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkFiles;
import org.apache.spark.TaskContext;
import org.apache.spark.util.LongAccumulator;
import org.apache.spark.util.SerializableConfiguration;
import org.jspecify.annotations.Nullable;

/**
 * What an executor does: writes one file of the output under a name of its own.
 *
 * @param run whose request the executor keeps open from one task to the next
 * @param attempts the folder to write to
 * @param threads of one task
 * @param bytes counts what was read, for Spark's page of the stage
 */
record ShardTask(
        String run,
        ShardRequest request,
        String model,
        String output,
        String attempts,
        SerializableConfiguration configuration,
        int threads,
        LongAccumulator bytes)
        implements Serializable {
    /** Another task of this process was cut off while it read the same file, which closed it for all. */
    private static final int TRIES = 3;

    /**
     * What a task did.
     *
     * @param refused the fault of the input or the request, with which every attempt would end; null where there is none
     */
    record Answer(
            @Nullable WrittenShard written,
            String attempt,
            @Nullable OctetException refused) implements Serializable {}

    Answer write(String name) throws IOException {
        Configuration hadoop = configuration.value();
        String own = URLEncoder.encode(name, StandardCharsets.UTF_8) + "-"
                + TaskContext.get().taskAttemptId();
        Path attempt = new Path(attempts, own);
        FileSystem files = HadoopPaths.fileSystem(attempt, hadoop);
        try (OpenRequests.Lease lease = OpenRequests.take(run, () -> open(hadoop))) {
            if (HadoopPaths.isLocal(attempt.toUri())) {
                java.nio.file.Path file = java.nio.file.Path.of(attempt.toUri().getPath());
                WrittenShard written = written(lease.shards(), name, file);
                try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
                    channel.force(true); // another machine's driver trusts it from now on
                }
                return new Answer(written, attempt.toString(), null);
            }
            // Hadoop's files are written from front to back, the tiles of a tensor in any order
            java.nio.file.Path scratch = Files.createTempDirectory(
                    java.nio.file.Path.of(SparkFiles.getRootDirectory()).toAbsolutePath(), "octet-shard-");
            try {
                java.nio.file.Path file = scratch.resolve("shard");
                WrittenShard written = written(lease.shards(), name, file);
                files.copyFromLocalFile(true, true, new Path(file.toUri()), attempt);
                return new Answer(written, attempt.toString(), null);
            } finally {
                Files.deleteIfExists(scratch.resolve("shard"));
                Files.deleteIfExists(scratch);
            }
        } catch (OctetException e) {
            return new Answer(null, "", e);
        }
    }

    private CheckpointShards open(Configuration hadoop) throws IOException {
        return request.open(HadoopPaths.of(model, hadoop), HadoopPaths.of(output, hadoop), job());
    }

    private Job job() {
        return Job.named("octet on Spark").withThreads(threads).withListener(new Counted(bytes));
    }

    private static WrittenShard written(CheckpointShards shards, String name, java.nio.file.Path file)
            throws IOException {
        for (int i = 1; ; i++) {
            try {
                return shards.write(name, file);
            } catch (ClosedChannelException e) {
                if (i == TRIES || Thread.currentThread().isInterrupted()) {
                    throw e;
                }
            }
        }
    }

    /** Adds the bytes of the tasks of a process; each task counts its own from 0. */
    private static final class Counted implements TaskListener {
        private final LongAccumulator bytes;
        private final ThreadLocal<Long> told = ThreadLocal.withInitial(() -> 0L);

        Counted(LongAccumulator bytes) {
            this.bytes = bytes;
        }

        @Override
        public void progress(String task, long done, long total, String unit) {
            bytes.add(Math.max(0, done - told.get()));
            told.set(done >= total ? 0L : done);
        }
    }
}
