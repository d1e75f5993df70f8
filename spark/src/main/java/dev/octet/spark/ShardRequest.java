package dev.octet.spark;

import dev.octet.pipeline.CheckpointShards;
import dev.octet.pipeline.Job;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;

/**
 * What is to become of a checkpoint: a request of {@code pipeline}, made anew in each process that works on it, because paths and recipes do not
 * travel. It must make the same request everywhere.
 *
 * <pre>{@code
 * ShardRequest request = (model, output, job) ->
 *         CheckpointShards.of(Quantize.CheckpointRequest.of(model, output, Recipes.FP8_DYNAMIC), job);
 * }</pre>
 */
@FunctionalInterface
public interface ShardRequest extends Serializable {
    /**
     * Opens it.
     *
     * @param model the checkpoint, in a file system that may be Hadoop's
     * @param output only named here; {@link ShardJob} sees to what is written
     * @param job how to go about it
     */
    CheckpointShards open(Path model, Path output, Job job) throws IOException;
}
