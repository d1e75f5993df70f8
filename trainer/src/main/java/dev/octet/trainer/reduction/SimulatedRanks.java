package dev.octet.trainer.reduction;

import dev.octet.trainer.collective.CodeSum;
import java.util.ArrayList;
import java.util.List;

/**
 * Ranks in this process, for one tensor and one step: they do what {@link RankGradient} does, and the collectives between are done here. First {@link #agree}; then
 * {@link #sum}, in which threads may work on different tiles.
 */
public final class SimulatedRanks {
    private final ReductionRule rule;
    private final List<RankGradient> ranks = new ArrayList<>();

    /**
     * Ranks about to average a tensor.
     *
     * @param before the scale {@link #kept} by the step before; 1 at first
     * @param preScale {@link ReductionRule#preScale}, or µ
     */
    public SimulatedRanks(ReductionRule rule, float before, float preScale) {
        this.rule = rule;
        for (int r = 0; r < rule.ranks(); r++) {
            ranks.add(new RankGradient(rule, before, preScale));
        }
    }

    /**
     * The first collective.
     *
     * @param amaxes largest magnitude of each rank's gradient, NaN if an element is
     */
    public void agree(float... amaxes) {
        boolean scales = rule.reduction().sharesScales();
        float shared = ranks.getFirst().announce(amaxes[0]);
        for (int r = 1; r < amaxes.length; r++) {
            float said = ranks.get(r).announce(amaxes[r]);
            shared = scales ? Math.min(shared, said) : Math.max(shared, said);
        }
        for (RankGradient rank : ranks) {
            rank.agree(shared);
        }
    }

    /**
     * The second collective, for a tile.
     *
     * @param gradients {@code n} elements of each rank; overwritten
     * @param sums takes the codes of the sum
     * @return how many of them stand for ±448
     */
    public int sum(float[][] gradients, int n, byte[] sums) {
        ranks.getFirst().encode(gradients[0], n, sums);
        byte[] codes = new byte[n];
        for (int r = 1; r < ranks.size(); r++) {
            ranks.get(r).encode(gradients[r], n, codes);
            CodeSum.add(sums, codes, n);
        }
        return CodeSum.saturated(sums, n);
    }

    /** The shared scale of the codes, pre-scale included. */
    public float scale() {
        return ranks.getFirst().scale();
    }

    /** The scale to begin the next step with. */
    public float kept() {
        return ranks.getFirst().kept();
    }

    /** What a code of the sum is multiplied by to give the average. */
    public float multiplier() {
        return ranks.getFirst().multiplier();
    }
}
