package dev.octet.pipeline;

import dev.octet.converter.verify.Finding;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** {@code octet export --prove-only}: the logits of a file that an earlier export wrote, compared with those of the trainer. */
public final class Prove {
    private Prove() {}

    /**
     * What to prove with.
     *
     * @param data samples; empty for the run's evaluation data, else its training data
     * @param samples at most so many
     * @param gate what {@link Result#worst} may be; empty for what the number formats of run and file allow
     * @param device where the trainer computes
     */
    public record Options(Optional<Path> data, int samples, Optional<Double> gate, DeviceName device) {
        /** How many samples are enough. */
        public static final int SAMPLES = 32;

        /** Some samples of the run, on the processor. */
        public static Options defaults() {
            return new Options(Optional.empty(), SAMPLES, Optional.empty(), DeviceName.CPU);
        }

        /** The same on other samples. */
        public Options withData(Path newData) {
            return new Options(Optional.of(newData), samples, gate, device);
        }

        /** The same with at most so many samples. */
        public Options withSamples(int count) {
            return new Options(data, count, gate, device);
        }

        /** The same with another gate. */
        public Options withGate(double newGate) {
            return new Options(data, samples, Optional.of(newGate), device);
        }

        /** The same on another device. */
        public Options withDevice(DeviceName newDevice) {
            return new Options(data, samples, gate, newDevice);
        }
    }

    /**
     * One output.
     *
     * @param maxAbs largest difference
     * @param cosine mean over samples
     * @param relative norm of the difference over that of the trainer's output
     */
    public record Gap(String output, double maxAbs, double cosine, double relative) {}

    /**
     * What came of it.
     *
     * @param worst largest relative gap of any output
     * @param choices of a mixture of experts, the share of its routers' choices that the file would have made otherwise; both sides compute with the
     *     trainer's. Null for other models
     * @param choicesGate what {@code choices} may be
     * @param uncovered of a checkpoint, what its configuration says of modules and its tensors deny: readers would compute something else than
     *     was compared here
     */
    public record Result(
            String data,
            long samples,
            List<Gap> gaps,
            double worst,
            double gate,
            @Nullable Double choices,
            double choicesGate,
            List<Finding> uncovered,
            boolean passed) {}

    /**
     * Compares what lies at the request's output with the trainer, and writes nothing.
     *
     * @param request as the file was exported; without a proof of its own, {@link Options#defaults()} counts
     * @throws dev.octet.formats.error.OctetException when the folder is not a run, or the file is not what the request says
     * @throws IOException when reading fails
     */
    public static Export.Result run(Export.Request request, Job job) throws IOException {
        Export.Request proved = request.proof().isPresent() ? request : request.withProof(Options.defaults());
        return Export.run(proved, ExportWriter.Mode.DECIDE, job);
    }
}
