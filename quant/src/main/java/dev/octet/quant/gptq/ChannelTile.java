package dev.octet.quant.gptq;

import static dev.octet.quant.gptq.GptqTileKernel.TILE;
import static dev.octet.quant.gptq.GptqTileKernel.TILE_ELEMENTS;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.FusedMultiplyAdd;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * Sixteen output channels of a weight during rounding, place by place in the order of an {@link InputFactor}; the last tile of a weight may
 * have fewer channels and is padded with zeros. Not thread-safe.
 */
final class ChannelTile {
    private final InputFactor factor;
    private final GptqTileKernel kernel;
    private final ElementCast cast;
    private final QuantType type;
    private final Grid grid;
    private final long first;
    /** The weights, {@code [places][16]}. */
    private final float[] weights;
    /** Weight minus rounded weight, {@code [places][16]}, padded with zeros. */
    private final double[] errors;
    /** Corrections of the current 16 places by the errors so far, {@code [16][16]}. */
    private final double[] carried = new double[TILE_ELEMENTS];

    private final MemorySegment scales;
    private final MemorySegment targets;
    private final MemorySegment roundedCodes;
    private final MemorySegment rounded;

    private final int channels;
    /** The place of each input; empty where pairs are not bounded. */
    private final int[] places;

    /** Scales and zero points of a weight's elements. */
    interface Grid {
        /** The dequantisation multiplier of the weight from an input to an output channel. */
        float scale(long channel, int input);

        /** Its zero point; 0 for symmetric codes. */
        default int zeroPoint(long channel, int input) {
            return 0;
        }

        /** Whether neighbouring codes stay within the bound of {@link BoundedPairs}. */
        default boolean boundsPairs() {
            return false;
        }

        /** The same grid, with neighbouring codes within the bound. */
        static Grid bounded(Grid grid) {
            return new Grid() {
                @Override
                public float scale(long channel, int input) {
                    return grid.scale(channel, input);
                }

                @Override
                public int zeroPoint(long channel, int input) {
                    return grid.zeroPoint(channel, input);
                }

                @Override
                public boolean boundsPairs() {
                    return true;
                }
            };
        }
    }

    /** The result of rounding the sixteen channels. */
    static final class Rounded {
        private final byte[] codes;
        private final double[] costs;

        private Rounded(byte[] codes, double[] costs) {
            this.codes = codes;
            this.costs = costs;
        }

        /** The code of a channel at a place. */
        byte code(int place, int column) {
            return codes[place * TILE + column];
        }

        /** {@code e^T H e} of a channel. */
        double cost(int column) {
            return costs[column];
        }
    }

    /**
     * Reads channels {@code first ..} of a weight.
     *
     * @param grid the scales of the weight's elements
     * @param arena owns the working memory
     */
    ChannelTile(
            InputFactor factor,
            GptqTileKernel kernel,
            ElementCast cast,
            QuantType type,
            WeightRows weight,
            long first,
            Grid grid,
            Arena arena) {
        this.factor = factor;
        this.kernel = kernel;
        this.cast = cast;
        this.type = type;
        this.grid = grid;
        this.first = first;
        this.channels = (int) Math.min(TILE, weight.out() - first);
        this.weights = new float[factor.size() * TILE];
        this.errors = new double[factor.paddedSize() * TILE];
        this.scales = arena.allocate(TILE * Float.BYTES, 64);
        this.targets = arena.allocate(TILE * Float.BYTES, 64);
        this.roundedCodes = arena.allocate(TILE, 64);
        this.rounded = arena.allocate(TILE * Float.BYTES, 64);
        this.places = new int[grid.boundsPairs() ? factor.size() : 0];
        for (int place = 0; place < places.length; place++) {
            places[factor.channel(place)] = place;
        }
        for (int c = 0; c < TILE; c++) {
            scales.set(Tensor.F32_LE, (long) c * Float.BYTES, 1);
            for (int place = 0; c < channels && place < factor.size(); place++) {
                weights[place * TILE + c] = weight.get(first + c, factor.channel(place));
            }
        }
    }

    /**
     * Rounds all places.
     *
     * @param compensate whether to round the weight corrected by earlier errors; otherwise rounds the weight itself
     */
    Rounded round(boolean compensate) {
        byte[] codes = new byte[weights.length];
        double[] costs = new double[TILE];
        Arrays.fill(errors, 0);
        for (int panel = factor.panels() - 1; panel >= 0; panel--) {
            Arrays.fill(carried, 0);
            factor.carry(panel, errors, carried, kernel);
            for (int place = Math.min(factor.size(), (panel + 1) * TILE) - 1; place >= panel * TILE; place--) {
                roundPlace(place, compensate, codes);
                addCosts(place, costs);
                carryWithin(panel * TILE, place);
            }
        }
        for (int c = 0; c < TILE; c++) {
            costs[c] = Math.max(0, costs[c]); // a difference of two sums
        }
        return new Rounded(codes, costs);
    }

    private void roundPlace(int place, boolean compensate, byte[] codes) {
        int row = place * TILE;
        int carriedRow = place % TILE * TILE;
        for (int c = 0; c < TILE; c++) {
            double carry = compensate ? carried[carriedRow + c] : 0;
            // adding 0 would make a negative zero positive
            float target = carry == 0 ? weights[row + c] : (float) (weights[row + c] + carry);
            targets.set(Tensor.F32_LE, (long) c * Float.BYTES, target);
        }
        int input = factor.channel(place);
        for (int c = 0; c < channels; c++) {
            scales.set(Tensor.F32_LE, (long) c * Float.BYTES, grid.scale(first + c, input));
        }
        if (type.isInteger()) {
            roundIntegers(place, codes);
        } else {
            Float8Format format = type.minifloat().orElseThrow();
            cast.encodeGroups(DType.F32, targets, scales, 1, format, Overflow.SATURATE, roundedCodes);
            cast.decodeGroups(format, roundedCodes, scales, 1, DType.F32, rounded);
        }
        MemorySegment.copy(roundedCodes, ValueLayout.JAVA_BYTE, 0, codes, row, TILE);
        for (int c = 0; c < TILE; c++) {
            errors[row + c] = (double) weights[row + c] - rounded.get(Tensor.F32_LE, (long) c * Float.BYTES);
        }
    }

    /** As {@link ElementCast#encodeIntegers} and {@link ElementCast#decodeIntegers} with a scale and a zero point for each element. */
    private void roundIntegers(int place, byte[] codes) {
        int input = factor.channel(place);
        for (int c = 0; c < TILE; c++) {
            float scale = scales.get(Tensor.F32_LE, (long) c * Float.BYTES);
            int zeroPoint = c < channels ? grid.zeroPoint(first + c, input) : 0;
            float target = targets.get(Tensor.F32_LE, (long) c * Float.BYTES);
            double steps = Math.rint(scale == 0 ? 0 : target / scale) + zeroPoint;
            int code = (int) Math.clamp(steps, type.lowest(), type.highest());
            if (places.length > 0 && c < channels) {
                code = bounded(code, place, c, codes);
            }
            roundedCodes.set(ValueLayout.JAVA_BYTE, c, (byte) code);
            rounded.set(Tensor.F32_LE, (long) c * Float.BYTES, (code - zeroPoint) * scale);
        }
    }

    /** A code within the bound of its pair: half of what would be too much, or what the other one, rounded before, leaves. */
    private int bounded(int code, int place, int column, byte[] codes) {
        int partner = factor.channel(place) ^ 1;
        if (partner >= places.length) {
            return code;
        }
        int other = places[partner];
        if (other > place) { // the last place is rounded first
            return BoundedPairs.bounded(code, codes[other * TILE + column]);
        }
        double steps = Math.rint(weights[other * TILE + column] / grid.scale(first + column, partner));
        return BoundedPairs.shared(code, (int) Math.clamp(steps, type.lowest(), type.highest()));
    }

    /** Adds the place's bracket (see {@link InputFactor}) minus the cost that only the damping causes. */
    private void addCosts(int place, double[] costs) {
        for (int c = 0; c < TILE; c++) {
            double error = errors[place * TILE + c];
            double bracket = error + carried[place % TILE * TILE + c];
            costs[c] += factor.pivot(place) * bracket * bracket - factor.damping() * error * error;
        }
    }

    /** Carries the error of {@code place} to the unrounded places of its panel. */
    private void carryWithin(int firstPlace, int place) {
        for (int k = firstPlace; k < place; k++) {
            double ratio = factor.ratio(place, k);
            int row = (k - firstPlace) * TILE;
            for (int c = 0; c < TILE; c++) {
                carried[row + c] = FusedMultiplyAdd.of(ratio, errors[place * TILE + c], carried[row + c]);
            }
        }
    }
}
