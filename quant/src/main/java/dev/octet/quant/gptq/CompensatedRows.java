package dev.octet.quant.gptq;

import static dev.octet.quant.gptq.GptqTileKernel.TILE;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.cast.Nibbles;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Rounds rows of a weight of {@code [out, in]} to given scales, whichever elements share one, so that the error of the outputs over the rows of
 * a {@link SecondMoment} is small, as {@link Gptq}: the scales are those of rounding to nearest, only codes differ. Rows are independent, so
 * parts of a weight give the bytes of the whole. A row for which compensation gives a larger error is rounded to nearest.
 *
 * <p>Groups keep their scales while input channels are rounded in another order than the weight's ("static groups"), so files need no
 * {@code g_idx} and every reader of the scales takes them.
 *
 * <p>Immutable; for use by any number of threads.
 */
public final class CompensatedRows {
    private final InputFactor factor;
    private final GptqTileKernel kernel = GptqTileKernel.best();
    private final ElementCast cast = ElementCast.best();

    private CompensatedRows(InputFactor factor) {
        this.factor = factor;
    }

    /**
     * The squared errors of the outputs, without bias, summed over the rows of the moment.
     *
     * @param error of the codes
     * @param nearest of rounding to nearest with the same scales; at least {@code error}
     */
    public record Errors(double error, double nearest) {}

    /**
     * Prepares the rounding of all weights with one input; takes {@code 4 K^2} bytes for K channels.
     *
     * @param input with at least one row, all of them finite
     * @return empty when the moment is not positive semidefinite
     */
    public static Optional<CompensatedRows> of(SecondMoment input, GptqOptions options) {
        return InputFactor.of(input, options, GptqTileKernel.best()).map(CompensatedRows::new);
    }

    /** Input channels. */
    public int size() {
        return factor.size();
    }

    /**
     * Rounds rows.
     *
     * @param type what the codes are
     * @param values F32, finite, {@code rows * size()} of them
     * @param runs the elements by scales, beginning with element 0
     * @param scales one F32 for each scale
     * @param zeroPoints one I8 for each scale; null for symmetric codes
     * @param codes takes {@link QuantType#bytes} bytes
     */
    public Errors round(
            QuantType type,
            MemorySegment values,
            ScaleRuns runs,
            MemorySegment scales,
            @Nullable MemorySegment zeroPoints,
            MemorySegment codes) {
        int in = factor.size();
        long rows = runs.elements() / in;
        int[] scaleOf = new int[Math.toIntExact(runs.elements())];
        runs.forEachGroup((first, count, scale) -> {
            for (long i = first; i < first + count; i++) {
                scaleOf[(int) (i - runs.from())] = (int) (scale - runs.firstScale());
            }
        });
        ChannelTile.Grid grid = new ChannelTile.Grid() {
            @Override
            public float scale(long channel, int input) {
                return scales.get(Tensor.F32_LE, (long) scaleOf[(int) channel * in + input] * Float.BYTES);
            }

            @Override
            public int zeroPoint(long channel, int input) {
                return zeroPoints == null
                        ? 0
                        : zeroPoints.get(ValueLayout.JAVA_BYTE, scaleOf[(int) channel * in + input]);
            }
        };
        WeightRows weight = new WeightRows(values, rows, in);
        double error = 0;
        double nearestError = 0;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment spread = type == QuantType.E2M1 ? arena.allocate(runs.elements(), 64) : codes;
            for (long first = 0; first < rows; first += TILE) {
                ChannelTile tile = new ChannelTile(factor, kernel, cast, type, weight, first, grid, arena);
                ChannelTile.Rounded nearest = tile.round(false);
                ChannelTile.Rounded compensated = tile.round(true);
                for (int c = 0; c < Math.min(TILE, rows - first); c++) {
                    boolean better = compensated.cost(c) < nearest.cost(c);
                    ChannelTile.Rounded rounded = better ? compensated : nearest;
                    for (int place = 0; place < in; place++) {
                        long at = (first + c) * in + factor.channel(place);
                        spread.set(ValueLayout.JAVA_BYTE, at, rounded.code(place, c));
                    }
                    error += rounded.cost(c);
                    nearestError += nearest.cost(c);
                }
            }
            if (type == QuantType.E2M1) {
                Nibbles.pack(spread, codes);
            }
        }
        return new Errors(error, nearestError);
    }
}
