package dev.octet.pipeline;

import dev.octet.converter.checkpoint.StreamOptions;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.ProgressListener;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.onnx.OnnxWriteOptions;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.List;

/**
 * How a verb goes about its work; none of it changes a byte of the result.
 *
 * @param name what messages call the job, in the place that says where a wrong option was given: {@code octet quantize}
 * @param threads at most so many work at once
 * @param overwrite whether an output that exists is replaced; else it is refused before any work is done
 * @param dryRun decide everything, compute and write nothing
 * @param commandLine what the user typed, for reports; empty where the library was called
 * @param listener hears how far it is
 */
public record Job(
        String name, String commandLine, int threads, boolean overwrite, boolean dryRun, TaskListener listener) {
    public Job {
        if (threads < 1) {
            throw new IllegalArgumentException(threads + " threads");
        }
    }

    /** All cores, nothing overwritten, everything done, silent. */
    public static Job defaults() {
        return named("the request");
    }

    /** The same under the name that its caller goes by. */
    public static Job named(String name) {
        return new Job(name, "", Runtime.getRuntime().availableProcessors(), false, false, TaskListener.NONE);
    }

    /** The same with so many threads. */
    public Job withThreads(int count) {
        return new Job(name, commandLine, count, overwrite, dryRun, listener);
    }

    /** The same, replacing outputs that exist. */
    public Job overwriting() {
        return new Job(name, commandLine, threads, true, dryRun, listener);
    }

    /** The same without computing or writing anything. */
    public Job dry() {
        return new Job(name, commandLine, threads, overwrite, true, listener);
    }

    /** The same, telling {@code heard} how far it is. */
    public Job withListener(TaskListener heard) {
        return new Job(name, commandLine, threads, overwrite, dryRun, heard);
    }

    /**
     * Refuses an output that exists, unless it may be overwritten or nothing is written; of an ONNX file also the data that may lie in a file of
     * its own.
     */
    public void refuseExisting(Path output) {
        if (overwrite || dryRun) {
            return;
        }
        for (Path path :
                isOnnx(output) ? List.of(output, OnnxWriteOptions.defaults().dataFile(output)) : List.of(output)) {
            if (Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
                throw invalid("'" + path + "' exists", "choose another name, or overwrite it with --force");
            }
        }
    }

    /** Refuses an output that is not a name for an ONNX file, before any work is done. */
    void requireOnnxName(Path output) {
        if (!isOnnx(output) || Files.isDirectory(output)) {
            throw invalid(
                    "'" + output + "' is not a name for an ONNX file",
                    "give a file whose name ends in .onnx; data that do not fit in it are put next to it");
        }
    }

    /** Refuses an output that is not a name for the folder of a checkpoint, before any work is done. */
    void requireFolderName(Path output) {
        if (isOnnx(output)) {
            throw invalid(
                    "'" + output + "' names an ONNX file, and a checkpoint is written into a folder",
                    "give the name of a folder; `octet quantize --target onnxruntime` writes an ONNX model");
        }
        if (Files.exists(output)
                && !Files.isDirectory(output)
                && !output.toString().endsWith(".safetensors")) {
            throw invalid("'" + output + "' is a file, but the output is a folder", "give the name of a folder");
        }
    }

    /** Refuses an output that is a folder where a file is written. */
    void requireFileName(Path output) {
        if (Files.isDirectory(output)) {
            throw invalid("'" + output + "' is a folder", "give --output the name of a file");
        }
    }

    /** Refuses an ONNX model where a checkpoint is meant. */
    void requireCheckpoint(Path model) {
        if (isOnnx(model) && Files.isRegularFile(model)) {
            throw invalid(
                    "'" + model + "' is an ONNX model, and checkpoints of tensors are meant",
                    "give safetensors; of a quantised ONNX model take the original, which is in floats");
        }
    }

    /** Whether a path is the name of an ONNX file. */
    static boolean isOnnx(Path path) {
        return path.toString().endsWith(".onnx");
    }

    /** An exception about the request. */
    InvalidOptionException invalid(String what, String fix) {
        return new InvalidOptionException(what, name, fix);
    }

    CalibrationOptions calibration(String task, String unit) {
        return calibration().withProgress(samples(task, unit));
    }

    CalibrationOptions calibration() {
        return CalibrationOptions.defaults().withThreads(threads);
    }

    EvaluationOptions evaluation(String task, String unit) {
        return EvaluationOptions.defaults().withThreads(threads).withProgress(samples(task, unit));
    }

    StreamOptions streaming(String task) {
        return new StreamOptions(threads, overwrite, (done, total) -> listener.progress(task, done, total, "bytes"));
    }

    private ProgressListener samples(String task, String unit) {
        return (done, total) -> listener.progress(task, done, total, unit);
    }
}
