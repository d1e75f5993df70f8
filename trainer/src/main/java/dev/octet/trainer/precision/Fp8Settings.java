package dev.octet.trainer.precision;

import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.TrainingRecipe;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Which Linears are computed in FP8, and how.
 *
 * @param recipe for all that nothing else is said of
 * @param highPrecision products that stay in the narrow type everywhere
 * @param fakeQuantize whether operands are quantised and widened again, and products computed in the narrow type
 * @param fusedNorm with delayed scaling, whether a normalisation that only FP8 Linears read hands its F32 result to their quantiser instead
 *     of rounding it to the narrow type first, as Transformer Engine's fused modules do
 * @param exemptFirst whether the first Linear of the graph is left alone
 * @param exemptLast whether the last Linear of the graph is left alone
 * @param filter which Linears are too small
 * @param overrides for layers by name; the first that matches counts
 */
public record Fp8Settings(
        TrainingRecipe recipe,
        Set<Product> highPrecision,
        boolean fakeQuantize,
        boolean fusedNorm,
        boolean exemptFirst,
        boolean exemptLast,
        LayerFilter filter,
        List<LayerOverride> overrides) {
    public Fp8Settings {
        highPrecision = Set.copyOf(highPrecision);
        overrides = List.copyOf(overrides);
    }

    /** Every Linear by one recipe. */
    public static Fp8Settings of(TrainingRecipe recipe) {
        return new Fp8Settings(recipe, Set.of(), false, true, false, false, LayerFilter.NONE, List.of());
    }

    /**
     * What is different for some layers.
     *
     * @param layers found in the name of the Linear's node or of its weight
     * @param fp8 false: these layers are computed as autocast has them
     * @param recipe null: the one of all
     * @param highPrecision null: as for all
     * @param fakeQuantize null: as for all
     */
    public record LayerOverride(
            Pattern layers,
            boolean fp8,
            @Nullable TrainingRecipe recipe,
            @Nullable Set<Product> highPrecision,
            @Nullable Boolean fakeQuantize) {
        boolean matches(String node, String weight) {
            return layers.matcher(node).find() || layers.matcher(weight).find();
        }
    }
}
