package dev.octet.trainer.config;

import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.reduction.AutoScale;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.yaml.Section;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Reads the keys of {@code precision} that simulate data-parallel ranks. */
final class RanksConfig {
    private static final String RANKS = "ranks";
    private static final String REDUCTION = "gradient_reduction";
    private static final String AUTO = "auto_scale";
    private static final int MOST = 1024;

    private RanksConfig() {}

    static RankSettings read(Section s) {
        int ranks = (int) s.whole(RANKS, 1, 1, MOST);
        if (ranks == 1) {
            for (String key : List.of(REDUCTION, AUTO)) {
                if (s.has(key)) {
                    throw s.error(
                            key, "a run on one rank averages no gradients", "add ranks: 4, or leave " + key + " out");
                }
            }
            return RankSettings.NONE;
        }
        Map<String, GradientReduction> names = GradientReduction.byName();
        boolean quirks = s.has("compat") && s.choice("compat", Map.of("none", false, "msamp", true), false);
        GradientReduction reduction = s.choice(REDUCTION, names, GradientReduction.MIN_SCALE);
        // the paper's scheme has it; what was shipped has not
        boolean automatic = s.flag(AUTO, reduction == GradientReduction.MIN_SCALE && !quirks);
        return new RankSettings(
                ranks,
                reduction,
                automatic ? Optional.of(AutoScale.DEFAULT) : Optional.empty(),
                quirks ? MsampScale.ORIGINAL : MsampScale.MENDED);
    }

    /** Gradients of ranks are summed as floats. */
    static void require(Section s, TrainingConfig config) {
        RankSettings ranks = config.precision().ranks();
        if (!ranks.isOn()) {
            return;
        }
        StateForm gradients = config.optimizer()
                .states()
                .forms(config.optimizer().optimizer())
                .gradients();
        if (!(gradients instanceof StateForm.Plain)) {
            throw s.section("precision")
                    .error(
                            RANKS,
                            "gradients of ranks are not kept as " + gradients.text(),
                            "keep gradients in F32, or leave ranks out");
        }
    }
}
