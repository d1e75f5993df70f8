package dev.octet.trainer.precision;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.state.StateForm;
import dev.octet.trainer.state.StateForm.OfZeros;
import java.util.Locale;

/**
 * MS-AMP (FP8-LM, arXiv:2310.18313): Linears in FP8 from weights that are kept in scaled F16, everything else by autocast. How weights, gradients and moments are kept
 * is the matter of {@link dev.octet.trainer.state.StateForms}.
 *
 * @param base autocast around the Linears: BF16, F16 or F32
 * @param level of MS-AMP
 * @param ranks that share a step's micro-batches
 */
public record MsampPolicy(Autocast base, TrainingRecipe.Msamp recipe, Level level, RankSettings ranks)
        implements PrecisionPolicy {
    /** Without other ranks. */
    public MsampPolicy(Autocast base, TrainingRecipe.Msamp recipe, Level level) {
        this(base, recipe, level, RankSettings.NONE);
    }

    /** MS-AMP's levels; each keeps what the one before keeps in few bits, and more. */
    public enum Level {
        /** Weights in scaled F16, their gradients in E4M3. */
        O1,
        /** The moments of the optimizer in E4M3 and F16, too. */
        O2,
        /** The E4M3 weights that products read are kept for a step; the scaled F16 is their master. */
        O3
    }

    /** How weights are kept. */
    public StateForm weights() {
        return new StateForm.PowerOfTwo(DType.F16, rule(), OfZeros.AS_BEFORE);
    }

    /** How their gradients are kept; those of several ranks are averaged as codes, and kept as the numbers of these. */
    public StateForm gradients() {
        if (ranks.isOn()) {
            return StateForm.Plain.F32;
        }
        return new StateForm.PowerOfTwo(DType.F8_E4M3FN, rule(), OfZeros.AS_BEFORE);
    }

    private MsampScale rule() {
        return recipe.rule();
    }

    /** Whether only Linears are kept in few bits, and the oddities of the library stay. */
    public boolean isOriginal() {
        return rule().quirks();
    }

    @Override
    public String name() {
        return "msamp " + level + (recipe.useTe() ? " with Transformer Engine" : "") + ", "
                + base.name().toLowerCase(Locale.ROOT);
    }

    @Override
    public DType low() {
        return base.low();
    }

    @Override
    public Rule rule(Node node) {
        return base.rule(node);
    }

    @Override
    public boolean readsCodes() {
        return true;
    }

    @Override
    public PrecisionPolicy forProgram(Graph graph, boolean trains) {
        Fp8Writer.CodedWeights weights = new Fp8Writer.CodedWeights(weights(), level == Level.O3);
        return new Fp8Writer(base, Fp8Plan.of(graph, Fp8Settings.of(recipe)), trains, weights);
    }

    @Override
    public Fp8Choice fp8(Graph graph) {
        return Fp8Plan.of(graph, Fp8Settings.of(recipe)).choice();
    }
}
