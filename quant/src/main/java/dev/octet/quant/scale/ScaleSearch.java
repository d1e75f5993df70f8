package dev.octet.quant.scale;

import java.util.Locale;

/** How the scale of each block, group or channel of a weight is chosen among those that a file can hold. */
public enum ScaleSearch {
    /** None: the scale follows from the largest magnitude of the block. */
    AMAX,
    /** The one with the least squared error of the block's values, as readers see them. */
    MSE,
    /**
     * The one with the least squared error, each value weighted by the mean square of the input that it is multiplied with: the diagonal of the
     * Hessian of the layer's squared error.
     */
    HESSIAN,
    /**
     * Of NVFP4: the largest magnitude of a block becomes 6 or 4, whichever has the smaller squared error; E2M1 has no number between them, so
     * values near the largest are rounded finer below 4 (Four Over Six, arXiv:2512.02010).
     */
    FOUR_OVER_SIX;

    /** As users type it: {@code four-over-six}. */
    public String label() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
