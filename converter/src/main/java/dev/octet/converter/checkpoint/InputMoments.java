package dev.octet.converter.checkpoint;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMoments;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.layout.StoredWeight;
import java.util.Map;
import java.util.OptionalInt;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** The second moments of what weights read. For use by several threads at once. */
public final class InputMoments {
    /** None. */
    public static final InputMoments NONE = new InputMoments(null, (_, moment) -> moment);

    private final @Nullable SecondMomentsFile file;
    private final Change change;
    private final Map<String, double[]> diagonals = new ConcurrentHashMap<>();

    /**
     * The moments of a file.
     *
     * @param file moments by module, open as long as a plan with them is carried out; null for none
     * @param change what transforms make of them
     */
    public InputMoments(@Nullable SecondMomentsFile file, Change change) {
        this.file = file;
        this.change = change;
    }

    /** Model, data and samples that the moments are of; empty without moments. */
    Map<String, String> origin() {
        return file == null ? Map.of() : file.contents().metadata();
    }

    /** What a transform of the model makes of the second moment of a module's input. */
    @FunctionalInterface
    public interface Change {
        /** The moment of the changed input. */
        SecondMoment of(String module, SecondMoment moment);
    }

    /** Whether there is the moment of a weight's input: some sample reached it. */
    public boolean has(String weight) {
        SecondMoments.Held held = file == null ? null : file.held(StoredWeight.moduleOf(weight));
        return held != null && held.rows() > 0;
    }

    /**
     * The moment of a weight's input.
     *
     * @param cols its input channels
     * @throws InvalidDataException when the moment is of other channels, or not of finite inputs
     */
    SecondMoment of(String weight, long cols) {
        if (file == null) {
            throw new IllegalStateException("no moments");
        }
        String module = StoredWeight.moduleOf(weight);
        SecondMoment moment = file.read(module);
        if (moment.size() != cols) {
            throw fault(weight, "the second moment has " + moment.size() + " channels, the weight " + cols + " inputs");
        }
        OptionalInt channel = moment.firstNonFinite();
        if (channel.isPresent()) {
            throw fault(
                    weight, "input channel " + channel.getAsInt() + " was NaN, infinite or too large in calibration");
        }
        return change.of(module, moment);
    }

    /** The damped diagonal of the moment of a weight's input: as {@link SecondMoment#dampedDiagonal}, read once. */
    double[] diagonal(String weight, long cols, double damping) {
        return diagonals.computeIfAbsent(weight, w -> of(w, cols).dampedDiagonal(damping));
    }

    /** For a moment that a weight cannot be rounded by. */
    static InvalidDataException fault(String weight, String what) {
        return new InvalidDataException(
                what,
                "module '" + StoredWeight.moduleOf(weight) + "'",
                "calibrate this model with --second-moments, leave the module out with --keep, or give --rounding"
                        + " nearest and no --scale-search hessian");
    }
}
