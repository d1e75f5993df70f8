package dev.octet.converter.checkpoint;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.quant.gptq.CompensatedRows;
import dev.octet.quant.gptq.GptqOptions;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMoments;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.layout.StoredWeight;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * The second moments of what weights read, by which their rounding is compensated (GPTQ); none to round to nearest.
 *
 * @param file moments by module, open as long as a plan with them is carried out; null for none
 */
public record InputMoments(@Nullable SecondMomentsFile file, GptqOptions options) {
    /** Rounds all weights to nearest. */
    public static final InputMoments NONE = new InputMoments(null, GptqOptions.defaults());

    /** Whether a weight is rounded by moments: some sample reached it. */
    public boolean has(String weight) {
        SecondMoments.Held held = file == null ? null : file.held(StoredWeight.moduleOf(weight));
        return held != null && held.rows() > 0;
    }

    /** What distinguishes runs with these moments from others. */
    public String fingerprint() {
        return file == null
                ? "nearest"
                : "gptq, damping " + options.damping() + (options.largestFirst() ? ", largest first, " : ", in order, ")
                        + file.contents().metadata();
    }

    /**
     * The rounding of a weight.
     *
     * @param cols its input channels
     * @throws InvalidDataException when the moment is of other channels, or not of finite inputs
     */
    CompensatedRows rows(String weight, long cols) {
        if (file == null) {
            throw new IllegalStateException("no moments");
        }
        String module = StoredWeight.moduleOf(weight);
        SecondMoment moment = file.read(module);
        if (moment.size() != cols) {
            throw fault(module, "the second moment has " + moment.size() + " channels, the weight " + cols + " inputs");
        }
        OptionalInt channel = moment.firstNonFinite();
        if (channel.isPresent()) {
            throw fault(
                    module, "input channel " + channel.getAsInt() + " was NaN, infinite or too large in calibration");
        }
        return CompensatedRows.of(moment, options)
                .orElseThrow(() -> fault(module, "the second moment is not positive semidefinite"));
    }

    private static InvalidDataException fault(String module, String what) {
        return new InvalidDataException(
                what,
                "module '" + module + "'",
                "calibrate this model with --second-moments, leave the module out with --keep, or give --rounding"
                        + " nearest");
    }
}
