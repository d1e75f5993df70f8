package dev.octet.converter.compare;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.QuantType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Finds an intermediate grid that values were rounded to: the usual recipes with scales from the largest magnitudes, dequantised to F32 or
 * BF16, or BF16 and F16 themselves. Rounds a sample of the original to each grid, then to the final grid, and compares the result with the
 * stored elements.
 */
final class Intermediates {
    /** Two numbers this close count as equal: FP32 products in another order. */
    private static final double SAME = 1e-6;

    private static final int TILE = 128;
    private static final int GROUP = 32;

    private final Sample from;
    private final Sample to;
    private final NumberGrid grid;
    private final float wholeAmax;

    /** An intermediate grid and the share of the sample that it explains. */
    record Way(String name, double share) {}

    /** Rounds element {@code i} of the sample. */
    private interface Step {
        float round(int i, float x);
    }

    /**
     * Prepares the trial.
     *
     * @param from the side in a wide format
     * @param to the same elements of the other side, with their multipliers
     * @param grid the grid of the other side
     * @param wholeAmax the largest magnitude of the first side's whole weight
     */
    Intermediates(Sample from, Sample to, NumberGrid grid, float wholeAmax) {
        this.from = from;
        this.to = to;
        this.grid = grid;
        this.wholeAmax = wholeAmax;
    }

    /** Rounding once, directly to the final grid. */
    Way direct() {
        return new Way("no other grid", share((i, x) -> x));
    }

    /** The intermediate grid that explains most of the sample; of equals, the first in the list. */
    Way best() {
        Way best = new Way("BF16", share((i, x) -> bf16(x)));
        best = better(best, new Way("F16", share((i, x) -> Half.toFloat(Half.fromFloat(x)))));
        for (Quantiser q : quantisers()) {
            best = better(best, new Way(q.name, share(q::round)));
            best = better(best, new Way(q.name + ", dequantised to BF16", share((i, x) -> bf16(q.round(i, x)))));
        }
        return best;
    }

    private static Way better(Way one, Way other) {
        return other.share > one.share ? other : one;
    }

    private static float bf16(float x) {
        return BFloat16.toFloat(BFloat16.fromFloat(x));
    }

    private double share(Step step) {
        int same = 0;
        for (int i = 0; i < from.size(); i++) {
            float expected = grid.round(step.round(i, from.value(i)), to.multiplier(i));
            double error = Math.abs((double) expected - to.value(i));
            same += error <= SAME * Math.abs(to.value(i)) ? 1 : 0;
        }
        return (double) same / Math.max(1, from.size());
    }

    /** A recipe: a scale for each element of the sample. */
    private static final class Quantiser {
        final String name;
        private final NumberGrid grid;
        private final float[] scales;

        Quantiser(String name, NumberGrid grid, float[] scales) {
            this.name = name;
            this.grid = grid;
            this.scales = scales;
        }

        float round(int i, float x) {
            return grid.round(x, scales[i]);
        }
    }

    private List<Quantiser> quantisers() {
        List<Quantiser> all = new ArrayList<>();
        float[] whole = new float[from.size()];
        Arrays.fill(whole, wholeAmax);
        float[] rows = from.rowAmax();
        float[] groups = from.boxAmax(1, GROUP);
        float[] tiles = from.boxAmax(TILE, TILE);
        add(all, "E4M3FN per tensor", QuantType.E4M3FN, whole, false);
        add(all, "E4M3FN per channel", QuantType.E4M3FN, rows, false);
        add(all, "E4M3FN per 128 x 128", QuantType.E4M3FN, tiles, false);
        add(all, "E4M3FN per 128 x 128 with powers of two", QuantType.E4M3FN, tiles, true);
        add(all, "MXFP8", QuantType.E4M3FN, groups, true);
        all.add(new Quantiser("MXFP8 (rounded down)", number(QuantType.E4M3FN), mxScales(groups)));
        add(all, "E5M2 per tensor", QuantType.E5M2, whole, false);
        add(all, "INT8 per tensor", QuantType.INT8, whole, false);
        add(all, "INT8 per channel", QuantType.INT8, rows, false);
        return all;
    }

    private static NumberGrid number(QuantType codes) {
        return NumberGrid.quantized(codes, DType.F32);
    }

    private static void add(List<Quantiser> all, String name, QuantType codes, float[] amax, boolean powersOfTwo) {
        float[] scales = new float[amax.length];
        for (int i = 0; i < amax.length; i++) {
            float scale = amax[i] == 0 ? 1 : Math.max(Float.MIN_NORMAL, amax[i] / codes.maxValue());
            if (powersOfTwo) {
                float floor = Math.scalb(1f, Math.getExponent(scale));
                scale = floor == scale ? floor : floor * 2;
            }
            scales[i] = scale;
        }
        all.add(new Quantiser(name, number(codes), scales));
    }

    /** OCP MX v1.0 section 6.3: the exponent of the largest magnitude minus the exponent of the format's largest number. */
    private static float[] mxScales(float[] amax) {
        float[] scales = new float[amax.length];
        int top = QuantType.E4M3FN.minifloat().orElseThrow().maxExponent();
        for (int i = 0; i < amax.length; i++) {
            scales[i] = amax[i] == 0 ? 1 : Math.scalb(1f, Math.max(-126, Math.getExponent(amax[i]) - top));
        }
        return scales;
    }
}
