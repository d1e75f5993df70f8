package dev.octet.converter.checkpoint;

import java.nio.file.Path;
import java.util.List;

/**
 * The result of a run.
 *
 * @param output the folder or file written
 * @param sourceBytes bytes read
 * @param targetBytes bytes of tensor files written
 * @param seconds wall-clock time
 * @param resumedFiles number of files finished by an earlier run
 * @param sharedScales the loss of fused weights by sharing a scale, worst first
 * @param rounded the errors of weights whose rounding was compensated, of files that this run wrote
 * @param carried files copied unchanged
 * @param merges what is left of adapters, for each weight that they change
 * @param leftBehind files of the source that were not copied
 */
public record CheckpointResult(
        Path output,
        long sourceBytes,
        long targetBytes,
        double seconds,
        int resumedFiles,
        List<SharedScale> sharedScales,
        List<MergeMeasure> merges,
        List<RoundedError> rounded,
        List<String> carried,
        List<String> leftBehind) {}
