package dev.octet.converter.compare;

import java.io.Serializable;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The difference of one weight between two models. The first model counts as exact: its values are the signal.
 *
 * @param a name in the first model
 * @param b name in the second model
 * @param match how the two were paired
 * @param transposed whether the second weight is stored transposed
 * @param shape of the first weight
 * @param schemeA how the first weight is stored
 * @param schemeB how the second weight is stored
 * @param closeness how close they are
 * @param elements number of elements
 * @param cosine between both as vectors; this and all other measures are over pairs of finite numbers
 * @param sqnrDb signal-to-noise ratio in dB; infinite without noise
 * @param maxAbsError largest difference
 * @param maxUlpError largest difference in units in the last place of the coarser grid at that element: the larger of the distance of its
 *     numbers (times the element's multiplier) at the smaller magnitude and half that distance at the larger magnitude; the grid with the
 *     larger unit is the coarser. Rounding to the coarser grid gives at most 0.5
 * @param amaxA largest magnitude of the first weight
 * @param amaxB largest magnitude of the second weight
 * @param relativeAmaxDifference {@code |amaxB - amaxA| / amaxA}; 0 when both are 0
 * @param differing elements whose numbers differ
 * @param zeroSigns zeros with different signs
 * @param notFinite pairs with a NaN or infinity
 * @param notFiniteApart of these, pairs that are not the same NaN or infinity
 * @param scales changed scales; null when the granularities differ
 * @param inputScaleA static scale of the input; NaN without one
 * @param inputScaleB static scale of the second weight's input; NaN without one
 * @param rounding whether one side was rounded more than once
 * @param errors number of differing elements by error in units of the coarser grid: up to 1/64, 1/4, 1/2 (plus slack), 3/4, 1, 2, 8, more
 * @param nearness how far the second weight is from round-to-nearest of the first
 * @param notes sentences for the user
 */
public record TensorDiff(
        String a,
        String b,
        Match match,
        boolean transposed,
        List<Long> shape,
        String schemeA,
        String schemeB,
        Closeness closeness,
        long elements,
        double cosine,
        double sqnrDb,
        double maxAbsError,
        double maxUlpError,
        double amaxA,
        double amaxB,
        double relativeAmaxDifference,
        long differing,
        long zeroSigns,
        long notFinite,
        long notFiniteApart,
        @Nullable ScaleChanges scales,
        double inputScaleA,
        double inputScaleB,
        RoundingSignature rounding,
        List<Long> errors,
        Nearness nearness,
        List<String> notes)
        implements Serializable {
    public TensorDiff {
        shape = List.copyOf(shape);
        errors = List.copyOf(errors);
        notes = List.copyOf(notes);
    }

    /** How two weights were paired. */
    public enum Match {
        /** They have the same name. */
        NAME,
        /** Their names differ in prefixes that wrappers add. */
        PREFIX,
        /** One is an output layer, the other the embedding it is tied to. */
        TIED,
        /** Their shapes and a sample of their elements agree. */
        CONTENT
    }
}
