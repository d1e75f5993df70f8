package dev.octet.trainer.reduction;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.MsampScale;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.IntStream;

/**
 * The ways in which MS-AMP averages FP8 gradients over ranks (commit 9746ea8). All sum codes ({@link Fp8Sum}) that were cast with one scale on all ranks, and divide the scale that
 * belongs to them by the number N of ranks; they differ in that scale.
 */
public enum GradientReduction {
    /**
     * The paper's (FP8-LM, arXiv:2310.18313, equations 4 to 6), as MS-AMP's optimizer for Megatron has it: each rank casts with its own scale, and casts again with the smallest of all
     * (msamp/megatron/optimizer/distrib_optimizer.py).
     */
    MIN_SCALE,
    /** Data-parallel training: the scale of the largest amax of all ranks, times 1/√N, so that sums of unlike gradients seldom saturate (msamp/nn/distributed.py). */
    DDP,
    /** The scale of the largest amax, without room: N equal gradients saturate (msamp/common/tensor/tensor_dist.py). */
    LEGACY,
    /** As {@link #LEGACY}, the sum made for the rank that owns the tensor (msamp/deepspeed/runtime/zero/fp8_stage_1_and_2.py). */
    ZERO;

    private static final float MAX = Float8Format.E4M3FN.maxValue();

    /**
     * An average over ranks.
     *
     * @param gradient codes of the sum with the scale of the mean
     * @param quantScales what each rank's gradient was last multiplied by; the next average's {@code before}
     * @param saturated codes of the sum that are the largest number
     */
    public record Mean(CodedGradient gradient, float[] quantScales, long saturated) {}

    /** The name in configurations: {@code min-scale}. */
    public String key() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /**
     * The mean of the gradients of all ranks.
     *
     * @param ranks of one length, in the order in which they are summed
     * @param before multipliers of the ranks so far, 1 at first: gradients of zeros keep theirs
     * @param preScale what multipliers are multiplied by to leave room for the sum: {@link AutoScale#factor}, or 1
     */
    public Mean mean(List<float[]> ranks, float[] before, MsampScale rule, float preScale) {
        float[] own = new float[ranks.size()];
        float largest = 0;
        for (int r = 0; r < own.length; r++) {
            float amax = amax(ranks.get(r));
            largest = Math.max(largest, amax);
            own[r] = rule.quantScale(amax, before[r], MAX);
        }
        List<CodedGradient> coded;
        if (this == MIN_SCALE) {
            float smallest = own[0];
            for (float q : own) {
                smallest = Math.min(smallest, q);
            }
            float shared = smallest * preScale;
            float[] each = own;
            coded = IntStream.range(0, own.length)
                    .mapToObj(r -> CodedGradient.of(ranks.get(r), each[r]).requantised(shared))
                    .toList();
        } else {
            float shared = preScale
                    * rule.quantScale(largest, before[0], MAX)
                    * (this == DDP ? (float) (1 / Math.sqrt(own.length)) : 1);
            coded = ranks.stream().map(g -> CodedGradient.of(g, shared)).toList();
            Arrays.fill(own, shared);
        }
        byte[] sum = Fp8Sum.of(coded.stream().map(CodedGradient::codes).toList());
        CodedGradient first = coded.getFirst();
        return new Mean(
                new CodedGradient(sum, first.quantScale(), first.scale() / own.length),
                own,
                Fp8Sum.saturated(sum));
    }

    /** Whether ranks average after each of a step's micro-batches, not once a step. */
    public boolean reducesEachTime() {
        return this == DDP;
    }

    /**
     * What ranks keep of their gradients between two of a step's micro-batches: the numbers of E4M3 codes, cast with each rank's own scale or with that of the largest amax of all.
     */
    public List<float[]> kept(List<float[]> ranks, MsampScale rule) {
        float largest = 0;
        for (float[] gradient : ranks) {
            largest = Math.max(largest, amax(gradient));
        }
        float all = largest;
        return ranks.stream()
                .map(g -> {
                    float amax = this == MIN_SCALE ? amax(g) : all;
                    return Float.isInfinite(amax)
                            ? g // an overflow: the step will be left out
                            : CodedGradient.of(g, rule.quantScale(amax, 1, MAX)).numbers();
                })
                .toList();
    }

    /** Largest magnitude, NaN and infinities as infinity. */
    private static float amax(float[] gradient) {
        float amax = 0;
        for (float g : gradient) {
            amax = Math.max(amax, Math.abs(g));
        }
        return Float.isNaN(amax) ? Float.POSITIVE_INFINITY : amax;
    }
}
