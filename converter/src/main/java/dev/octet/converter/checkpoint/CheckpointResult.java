package dev.octet.converter.checkpoint;

import java.nio.file.Path;
import java.util.List;

/**
 * What a run did.
 *
 * @param output the folder or file written
 * @param sourceBytes bytes read
 * @param targetBytes bytes of tensors' files written
 * @param seconds wall-clock time
 * @param resumedFiles files that an earlier run had finished
 * @param sharedScales what fused weights lose by sharing a scale, worst first
 * @param carried files that went along as they were
 * @param leftBehind files of the source that did not
 */
public record CheckpointResult(
        Path output,
        long sourceBytes,
        long targetBytes,
        double seconds,
        int resumedFiles,
        List<SharedScale> sharedScales,
        List<String> carried,
        List<String> leftBehind) {}
