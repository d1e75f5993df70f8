package dev.octet.quant.gptq;

import static dev.octet.quant.gptq.GptqTileKernel.TILE;

import java.util.Comparator;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * The second moment of a layer's input, damped, permuted to the order of rounding and factorised.
 *
 * <p>With P the order, last channel first, {@code P (H + damping I) P^T = L L^T = (I + F^T) D (I + F)}: {@code F} the strictly upper
 * {@code L^T} divided by its diagonal, {@code D} the squares of the diagonal. Then an error vector costs
 * {@code sum over k of D_k (e_k + sum over j > k of F_kj e_j)^2}: rounding from the last place to the first, place k is best rounded to
 * what makes its bracket smallest. That is GPTQ without the inverse of H (QuIP, theorem 6): half the work of a factorisation, and
 * better conditioned.
 */
final class InputFactor {
    /** Factor on the damping when H is singular to working precision. */
    private static final double NEXT_DAMPING = 10;
    /** The damping after 0, as a share of the mean of the diagonal: well above the rounding error of H. */
    private static final double LEAST_DAMPING = 1e-8;

    /** Indexed by places, not channels. */
    private final LowerTriangle layout;
    /**
     * F transposed, below the diagonal, tile by tile: element (j, k), j > k, is the share of the error at place j that is carried to place
     * k. Elements on and above the diagonal are undefined.
     */
    private final double[] ratios;

    private final double[] pivots;
    private final int[] channels;
    private final double damping;

    private InputFactor(LowerTriangle layout, double[] ratios, double[] pivots, int[] channels, double damping) {
        this.layout = layout;
        this.ratios = ratios;
        this.pivots = pivots;
        this.channels = channels;
        this.damping = damping;
    }

    /**
     * Factorises. Raises the damping of a singular H tenfold until it succeeds; an H that is not a second moment has no factor.
     *
     * @param moment with a finite diagonal
     */
    static Optional<InputFactor> of(SecondMoment moment, GptqOptions options, GptqTileKernel kernel) {
        double[] diagonal = moment.diagonal();
        double mean = moment.meanSquare();
        int[] channels = channels(diagonal, options.largestFirst());
        double share = options.damping();
        while (share <= NEXT_DAMPING) {
            Optional<InputFactor> factor = of(moment, channels, share * mean, kernel);
            if (factor.isPresent()) {
                return factor;
            }
            share = Math.max(share * NEXT_DAMPING, LEAST_DAMPING);
        }
        return Optional.empty();
    }

    /** Input channels in reverse order of rounding; of equal channels, the first of the weight is rounded first. */
    private static int[] channels(double[] diagonal, boolean largestFirst) {
        Comparator<Integer> backwards = Comparator.reverseOrder();
        Comparator<Integer> order = largestFirst
                ? Comparator.<Integer>comparingDouble(c -> diagonal[c]).thenComparing(backwards)
                : backwards;
        return IntStream.range(0, diagonal.length)
                .boxed()
                .sorted(order)
                .mapToInt(Integer::intValue)
                .toArray();
    }

    private static Optional<InputFactor> of(
            SecondMoment moment, int[] channels, double damping, GptqTileKernel kernel) {
        LowerTriangle layout = new LowerTriangle(channels.length);
        double[] factor = new double[layout.length()];
        for (int j = 0; j < channels.length; j++) {
            for (int k = 0; k <= j; k++) {
                factor[layout.index(j, k)] = moment.get(channels[j], channels[k]);
            }
            double d = factor[layout.index(j, j)] + damping;
            // A channel that was always 0 is independent of the others; any positive number can replace its cost, which
            // is 0.
            factor[layout.index(j, j)] = d == 0 ? 1 : d;
        }
        for (int j = channels.length; j < layout.paddedSize(); j++) {
            factor[layout.index(j, j)] = 1;
        }
        return Cholesky.factor(layout, factor, kernel)
                ? Optional.of(normalised(layout, factor, moment, channels, damping))
                : Optional.empty();
    }

    private static InputFactor normalised(
            LowerTriangle layout, double[] factor, SecondMoment moment, int[] channels, double damping) {
        double[] pivots = new double[channels.length];
        for (int k = 0; k < channels.length; k++) {
            double diagonal = factor[layout.index(k, k)];
            boolean costs = damping > 0 || moment.get(channels[k], channels[k]) > 0;
            pivots[k] = costs ? diagonal * diagonal : 0;
            for (int j = k + 1; j < layout.paddedSize(); j++) {
                factor[layout.index(j, k)] /= diagonal;
            }
        }
        return new InputFactor(layout, factor, pivots, channels, damping);
    }

    /** Number of places. */
    int size() {
        return channels.length;
    }

    /** {@link #size} rounded up to whole tiles. */
    int paddedSize() {
        return layout.paddedSize();
    }

    /** Number of tiles. */
    int panels() {
        return layout.panels();
    }

    /** The input channel at a place; the last place is rounded first. */
    int channel(int place) {
        return channels[place];
    }

    /** The element of D at a place. */
    double pivot(int place) {
        return pivots[place];
    }

    /** The number added to the diagonal of H. */
    double damping() {
        return damping;
    }

    /** The share of the error at place {@code j} that is carried to place {@code k}, {@code j > k}, in the same tile or below. */
    double ratio(int j, int k) {
        return ratios[layout.index(j, k)];
    }

    /** Adds to {@code tile} the corrections of panel {@code panel} by the errors of all later places. */
    void carry(int panel, double[] errors, double[] tile, GptqTileKernel kernel) {
        int below = (panel + 1) * TILE;
        kernel.accumulate(
                ratios,
                layout.panelStart(panel) + TILE * TILE,
                errors,
                below * TILE,
                layout.paddedSize() - below,
                tile,
                0);
    }
}
