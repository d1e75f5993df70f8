package dev.octet.trainer.reduction;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.collective.CodeSum;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.collective.SumRounding;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * What one rank does to average its gradient of one tensor with those of the others: {@link #announce} before the first collective, {@link #agree} after
 * it, {@link #encode} before the second, which sums codes. Scales here are what numbers are multiplied by; {@link #multiplier} is what codes of the sum are multiplied
 * by to give the average. After {@link #agree} threads may encode different tiles.
 */
public final class RankGradient {
    /** The second collective: of codes in E4M3, {@link CodeSum} hop by hop. */
    public static final RankReduction CODES = RankReduction.SUM.rounding(SumRounding.EVERY_HOP);

    private static final Float8Format E4M3 = Float8Format.E4M3FN;

    private final ReductionRule rule;
    private final float before;
    private final float preScale;
    private float own;
    private float agreed;

    /**
     * A rank's share in one step.
     *
     * @param before the scale {@link #kept} by the step before; 1 at first
     * @param preScale {@link ReductionRule#preScale}, or µ
     */
    public RankGradient(ReductionRule rule, float before, float preScale) {
        this.rule = rule;
        this.before = before;
        this.preScale = preScale;
        this.own = before;
        this.agreed = before;
    }

    /**
     * What this rank says: with {@link GradientReduction#sharesScales} its scale, whose minimum is due, otherwise its amax, whose maximum is due.
     *
     * @param amax largest magnitude of its gradient; NaN if an element is
     */
    public float announce(float amax) {
        float known = Float.isNaN(amax) ? Float.POSITIVE_INFINITY : amax;
        if (!rule.reduction().sharesScales()) {
            return known;
        }
        own = rule.scale().quantScale(known, before, E4M3.maxValue());
        boolean speaks = rule.scale().quirks() || (known > 0 && known < Float.POSITIVE_INFINITY);
        if (!speaks) {
            own = Float.POSITIVE_INFINITY;
        }
        return own;
    }

    /** Takes what the ranks agreed on: the minimum or maximum of what they announced. */
    public void agree(float shared) {
        if (!rule.reduction().sharesScales()) {
            agreed = rule.scale().quantScale(shared, before, E4M3.maxValue());
            own = agreed;
        } else {
            agreed = Float.isInfinite(shared) && !rule.scale().quirks() ? before : shared;
            own = Float.isInfinite(own) && !rule.scale().quirks() ? agreed : own;
        }
    }

    /** The shared scale of the codes, pre-scale included. */
    public float scale() {
        return agreed * preScale;
    }

    /** The scale to begin the next step with. */
    public float kept() {
        return rule.scale().quirks() && !rule.reduction().sharesScales() ? scale() : agreed;
    }

    /** What a code of the sum is multiplied by to give the average. */
    public float multiplier() {
        return rule.reduction().sharesScales()
                ? 1 / scale() * (float) (1.0 / rule.ranks())
                : 1 / scale() / rule.ranks();
    }

    /**
     * The codes that this rank adds to the sum.
     *
     * @param values its gradient, {@code n} elements; overwritten
     */
    public void encode(float[] values, int n, byte[] codes) {
        float first = own * preScale;
        if (!rule.scale().quirks()) {
            for (int i = 0; i < n; i++) {
                values[i] = Float.isInfinite(values[i]) ? Float.NaN : values[i];
            }
        }
        multiply(values, n, first);
        cast(values, n, codes);
        requantise(first, n, values, codes);
    }

    /**
     * Brings codes of this rank to the shared scale, for gradients that a rank accumulates in E4M3.
     *
     * @param made the scale they were made with, pre-scale included
     * @param work room for {@code n} numbers
     */
    public void requantise(float made, int n, float[] work, byte[] codes) {
        if (made != scale()) {
            float inverse = 1 / made;
            for (int i = 0; i < n; i++) {
                work[i] = E4M3.decode(codes[i] & 0xFF) * inverse;
            }
            multiply(work, n, scale());
            cast(work, n, codes);
        }
    }

    private static void multiply(float[] values, int n, float by) {
        for (int i = 0; i < n; i++) {
            values[i] *= by;
        }
    }

    private static void cast(float[] values, int n, byte[] codes) {
        ElementCast.best()
                .encode(
                        DType.F32,
                        MemorySegment.ofArray(values).asSlice(0, 4L * n),
                        1,
                        E4M3,
                        Overflow.SATURATE,
                        MemorySegment.ofArray(codes).asSlice(0, n));
    }

    /**
     * All that this rank does to average a whole tensor with the others.
     *
     * @param gradient its elements; overwritten
     * @param others the ranks, this one among them
     * @return codes of the sum
     */
    public byte[] average(float[] gradient, Collectives others) {
        agree(others.allReduce(announce(amax(gradient)), agreement(rule)));
        byte[] codes = new byte[gradient.length];
        encode(gradient, gradient.length, codes);
        others.allReduce(MemorySegment.ofArray(codes), DType.F8_E4M3FN, CODES);
        return codes;
    }

    /** The first collective: of what ranks {@link #announce}. */
    public static RankReduction agreement(ReductionRule rule) {
        return rule.reduction().sharesScales() ? RankReduction.MIN : RankReduction.MAX;
    }

    /**
     * Rounds a gradient as a rank keeps it between two of a step's micro-batches: to E4M3 with the rank's own scale where ranks share scales, otherwise with that of the
     * largest amax of all. A gradient with NaN or an infinity stays as it is: its step is left out.
     *
     * @param gradient overwritten
     * @param largest amax of all ranks, NaN if that of one is
     */
    public static void round(ReductionRule rule, float[] gradient, float largest) {
        float amax = rule.reduction().sharesScales() ? amax(gradient) : largest;
        if (amax > 0 && Float.isFinite(amax)) {
            float scale = rule.scale().quantScale(amax, 1, E4M3.maxValue());
            float inverse = 1 / scale;
            multiply(gradient, gradient.length, scale);
            byte[] codes = new byte[gradient.length];
            cast(gradient, gradient.length, codes);
            for (int i = 0; i < codes.length; i++) {
                gradient[i] = E4M3.decode(codes[i] & 0xFF) * inverse;
            }
        }
    }

    /** The largest magnitude of all ranks; NaN if an element is. */
    public static float amax(List<float[]> ranks) {
        float largest = 0;
        for (float[] gradient : ranks) {
            largest = Math.max(largest, amax(gradient));
        }
        return largest;
    }

    /** The largest magnitude; NaN if an element is. */
    public static float amax(float[] gradient) {
        float amax = 0;
        for (float g : gradient) {
            amax = Math.max(amax, Math.abs(g));
        }
        return amax;
    }
}
