package dev.octet.trainer.reduction;

import dev.octet.quant.scale.MsampScale;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Data-parallel ranks: {@code ranks} consecutive micro-batches of a step are the batches of so many ranks. Ranks that are processes or threads compute one each; a run that is
 * alone simulates all.
 *
 * @param ranks how many; 1 for a run without
 * @param reduction how the gradients of matrices are averaged; other gradients are averaged in F32
 * @param automatic µ, if it is automatic
 * @param scale MS-AMP's scales, with or without their oddities
 */
public record RankSettings(int ranks, GradientReduction reduction, Optional<AutoScale> automatic, MsampScale scale) {
    /** As many ranks as a run may have. */
    public static final int MOST = 1024;

    /** No ranks. */
    public static final RankSettings NONE =
            new RankSettings(1, GradientReduction.MIN_SCALE, Optional.empty(), MsampScale.MENDED);

    public RankSettings {
        if (ranks < 1) {
            throw new IllegalArgumentException(ranks + " ranks");
        }
    }

    /** Whether gradients of several ranks are averaged. */
    public boolean isOn() {
        return ranks > 1;
    }

    /** How one gradient is averaged. */
    public ReductionRule rule() {
        return new ReductionRule(reduction, scale, ranks);
    }

    /** The first pre-scale of each tensor. */
    public float firstPreScale() {
        return automatic.isPresent() ? AutoScale.first(ranks) : rule().preScale();
    }

    /** What a process that plays all ranks simulates, in words. */
    public String text() {
        String codes = reduction.isCoded()
                ? "gradients of matrices are averaged by " + reduction.text()
                        + " in E4M3, rounded and saturated after each addition as by NCCL"
                        + (automatic.isPresent() ? ", with auto_scale" : "") + "; others in F32"
                : "gradients are averaged in F32";
        return "simulates " + ranks + " ranks: " + codes;
    }

    /** As dotted keys under {@code precision}; none without ranks. */
    public Map<String, String> keys() {
        Map<String, String> keys = new LinkedHashMap<>();
        if (isOn()) {
            keys.put("ranks", String.valueOf(ranks));
            keys.put("gradient_reduction", reduction.text());
            keys.put("compat", scale.quirks() ? "msamp" : "none");
            keys.put("auto_scale", String.valueOf(automatic.isPresent()));
            automatic.ifPresent(a -> {
                keys.put("auto_scale.ratio", String.valueOf(a.ratio()));
                keys.put("auto_scale.window", String.valueOf(a.window()));
            });
        }
        return keys;
    }
}
