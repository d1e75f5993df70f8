package dev.octet.trainer.config;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.FloatName;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.reduction.AutoScale;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.yaml.Section;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** Reads the keys of {@code precision} that say how many data-parallel ranks there are, and how their gradients are averaged. */
final class RanksConfig {
    private static final String SECTION = "precision";
    private static final String RANKS = "ranks";
    private static final String REDUCTION = "gradient_reduction";
    private static final String AUTO = "auto_scale";

    private RanksConfig() {}

    /** A configuration with what follows from the number of processes. */
    static Section with(Section file, int processes) {
        if (processes == 1) {
            return file;
        }
        DistributedConfig arranged = file.section("distributed").read(DistributedConfig::read);
        int ranks = arranged.mesh(processes).data();
        Section own = file.section(SECTION);
        OptionalLong written = written(own);
        if (written.isEmpty()) {
            return with(file, ranks, "number of processes");
        }
        if (written.getAsLong() != ranks) {
            throw own.error(
                    RANKS,
                    arranged.cutsModel()
                            ? "the " + processes + " processes of the run are " + ranks + " data-parallel ranks"
                            : "the run has " + processes + " processes, and each is one rank",
                    "leave ranks out, or start " + written.getAsLong() * (processes / ranks) + " processes"
                            + (arranged.cutsModel() ? "" : "; one process alone plays all ranks"));
        }
        return file;
    }

    /**
     * The configuration with which one process plays so many ranks: what {@link #with(Section, int)} makes of it on so many processes.
     *
     * @param option that asks for them, for messages
     */
    static Section simulating(Section file, int ranks, String option) {
        String asked = option + " " + ranks;
        if (ranks < 1 || ranks > RankSettings.MOST) {
            throw new InvalidOptionException(
                    ranks + " ranks cannot be simulated", asked, "give a number from 1 to " + RankSettings.MOST);
        }
        DistributedConfig arranged = file.section("distributed").read(DistributedConfig::read);
        if (arranged.cutsModel()) {
            throw new InvalidOptionException(
                    "one process plays data-parallel ranks, which all have the whole model",
                    asked + "; distributed: {tensor: " + arranged.tensor() + ", pipeline: " + arranged.pipeline() + "}",
                    "leave out one of the two");
        }
        Section own = file.section(SECTION);
        OptionalLong written = written(own);
        if (written.isEmpty()) {
            return with(file, ranks, asked);
        }
        if (written.getAsLong() != ranks) {
            throw own.error(
                    RANKS,
                    asked + " asks for another number of ranks than the configuration's " + written.getAsLong(),
                    "leave out one of the two");
        }
        return file;
    }

    private static OptionalLong written(Section own) {
        return own.isWritten(RANKS) ? OptionalLong.of(own.whole(RANKS, 1, 1, RankSettings.MOST)) : OptionalLong.empty();
    }

    private static Section with(Section file, int ranks, String origin) {
        Section own = file.section(SECTION);
        Section all = file.with(SECTION + "." + RANKS, String.valueOf(ranks), origin);
        boolean codes = own.text("mode").map(FloatName::normal).orElse("").equals("msamp");
        return ranks == 1 || own.isWritten(REDUCTION) || codes
                ? all
                : all.with(SECTION + "." + REDUCTION, GradientReduction.F32.text(), origin);
    }

    static RankSettings read(Section s) {
        int ranks = (int) s.whole(RANKS, 1, 1, RankSettings.MOST);
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
        if (!reduction.isCoded() && s.has(AUTO)) {
            throw s.error(
                    AUTO, "averages in F32 have no scale", "leave the key out, or choose " + REDUCTION + ": min-scale");
        }
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
        if (!ranks.reduction().isCoded() && config.precision().msamp().isPresent()) {
            throw s.section(SECTION)
                    .error(
                            REDUCTION,
                            "gradients of mode msamp are codes",
                            "choose min-scale, ddp, legacy or zero, or mode: bf16");
        }
        if (config.precision().policy() instanceof Fp8Policy fp8
                && fp8.settings().recipe() instanceof DelayedScaling delayed
                && !delayed.reduceAmax()) {
            throw s.section(SECTION)
                    .error("reduce_amax", "ranks have one set of scales", "leave reduce_amax out, or ranks");
        }
        StateForm gradients = config.optimizer()
                .states()
                .forms(config.optimizer().optimizer())
                .gradients();
        if (!(gradients instanceof StateForm.Plain)) {
            throw s.section(SECTION)
                    .error(
                            RANKS,
                            "gradients of ranks are not kept as " + gradients.text(),
                            "keep gradients in F32, or leave ranks out");
        }
    }
}
