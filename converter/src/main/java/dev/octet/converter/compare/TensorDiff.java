package dev.octet.converter.compare;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What became of one weight. The first model is the exact one: its values are the signal.
 *
 * @param a name in the first model
 * @param b name in the second model
 * @param match how the two were found to belong together
 * @param transposed whether the second one lies transposed
 * @param shape of the first one
 * @param schemeA how the first one is stored
 * @param schemeB how the second one is stored
 * @param closeness how near they are
 * @param elements number of elements
 * @param cosine of the angle between both as vectors; over pairs of finite numbers, as all measures
 * @param sqnrDb signal to noise in dB; infinite when there is no noise
 * @param maxAbsError largest difference
 * @param maxUlpError largest difference in units in the last place of the coarser grid at that element: the distance of its numbers (times
 *     the multiplier of the element) at the smaller of both magnitudes, or half of that at the larger where that is more; the coarser grid is
 *     the one with the larger unit. Rounding to the coarser grid is at most 0.5
 * @param amaxA largest magnitude of the first one
 * @param amaxB largest magnitude of the second one
 * @param relativeAmaxDifference {@code |amaxB - amaxA| / amaxA}; 0 when both are 0
 * @param differing elements that are different numbers
 * @param zeroSigns zeros with different signs
 * @param notFinite pairs with a NaN or infinity
 * @param notFiniteApart of these, pairs that are not the same NaN or infinity
 * @param scales changed scales; null when the two do not share scales in the same way
 * @param inputScaleA static scale of the input; NaN when there is none
 * @param inputScaleB the same of the second one
 * @param rounding whether one side was rounded more than once
 * @param errors number of differing elements by error in units of the coarser grid: up to 1/64, 1/4, 1/2 (and slack), 3/4, 1, 2, 8, more
 * @param nearness how far elements of the second one are from the numbers it could hold that are nearest to the first one's
 * @param notes sentences for people
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
        List<String> notes) {
    public TensorDiff {
        shape = List.copyOf(shape);
        errors = List.copyOf(errors);
        notes = List.copyOf(notes);
    }

    /** How two weights were found to belong together. */
    public enum Match {
        /** They have the same name. */
        NAME,
        /** Their names differ in prefixes that wrappers add. */
        PREFIX,
        /** One is the embedding that the other's output layer is tied to. */
        TIED,
        /** Their shapes and a sample of their elements agree. */
        CONTENT
    }
}
