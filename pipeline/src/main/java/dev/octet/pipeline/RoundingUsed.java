package dev.octet.pipeline;

import dev.octet.pipeline.Quantize.Rounding;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;

/**
 * How the weights of a graph are rounded, and why so.
 *
 * @param reason one phrase: what was asked for, where the second moments come from, or what GPTQ lacks
 */
record RoundingUsed(Rounding rounding, String reason) {
    /**
     * What a request leads to.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when GPTQ is asked for and there are no second moments
     */
    static RoundingUsed of(Quantize.GraphRequest request, Job job) {
        if (request.rounding().equals(Optional.of(Rounding.NEAREST))) {
            return new RoundingUsed(Rounding.NEAREST, "as asked");
        }
        if (request.samples().isPresent()) {
            return new RoundingUsed(Rounding.GPTQ, "second moments of the samples");
        }
        Optional<MomentsFile> moments = request.statistics().map(MomentsFile::new);
        Optional<Path> file = moments.filter(MomentsFile::exists).map(MomentsFile::path);
        if (file.isPresent()) {
            return new RoundingUsed(Rounding.GPTQ, "second moments in " + file.get());
        }
        String how = request.statistics()
                .map(s -> CalibrateCommandLine.of(request.model(), s, "--second-moments"))
                .orElse("--calibration FILE");
        if (request.rounding().isPresent()) {
            throw job.invalid(
                    "--rounding gptq needs second moments of the layers' inputs"
                            + moments.map(m -> ", and there is no " + m.path()).orElse(""),
                    "give them by " + how + ", or take --rounding nearest");
        }
        return new RoundingUsed(Rounding.NEAREST, "gptq needs second moments: " + how);
    }

    /** {@code gptq} or {@code nearest}. */
    String name() {
        return rounding.name().toLowerCase(Locale.ROOT);
    }
}
