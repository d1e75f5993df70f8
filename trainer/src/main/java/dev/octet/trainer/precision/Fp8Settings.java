package dev.octet.trainer.precision;

import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.quant.recipe.TrainingRecipe;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
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
 * @param operands single operands that are not quantised as the recipe says, in all layers without an override
 * @param overrides for layers by name; the first that matches counts
 * @param changes on top of all that, by the id of a Linear's node: what a search or a guard found out
 * @param fakeResults results of products that are quantised as given and widened again, by the id of a Linear's node; scaled by
 *     {@link OperandSpec.Scaling.Current}
 * @param likeHopper whether products of codes add up as Hopper's FP8 units do, see {@link dev.octet.trainer.op.fp8.Accumulation}
 */
public record Fp8Settings(
        TrainingRecipe recipe,
        Set<Product> highPrecision,
        boolean fakeQuantize,
        boolean fusedNorm,
        boolean exemptFirst,
        boolean exemptLast,
        LayerFilter filter,
        Map<ProductOperand, OperandChange> operands,
        List<LayerOverride> overrides,
        Map<String, Map<ProductOperand, OperandChange>> changes,
        Map<String, Map<Product, OperandSpec>> fakeResults,
        boolean likeHopper) {
    public Fp8Settings {
        highPrecision = Set.copyOf(highPrecision);
        operands = sorted(operands);
        overrides = List.copyOf(overrides);
        Map<String, Map<ProductOperand, OperandChange>> sorted = new TreeMap<>();
        changes.forEach((node, c) -> sorted.put(node, sorted(c)));
        changes = Collections.unmodifiableMap(sorted);
        Map<String, Map<Product, OperandSpec>> results = new TreeMap<>();
        fakeResults.forEach((node, r) -> results.put(node, Collections.unmodifiableMap(new TreeMap<>(r))));
        fakeResults = Collections.unmodifiableMap(results);
    }

    /** Settings that leave the results of products as they are. */
    public Fp8Settings(
            TrainingRecipe recipe,
            Set<Product> highPrecision,
            boolean fakeQuantize,
            boolean fusedNorm,
            boolean exemptFirst,
            boolean exemptLast,
            LayerFilter filter,
            Map<ProductOperand, OperandChange> operands,
            List<LayerOverride> overrides,
            Map<String, Map<ProductOperand, OperandChange>> changes) {
        this(
                recipe,
                highPrecision,
                fakeQuantize,
                fusedNorm,
                exemptFirst,
                exemptLast,
                filter,
                operands,
                overrides,
                changes,
                Map.of(),
                false);
    }

    private static Map<ProductOperand, OperandChange> sorted(Map<ProductOperand, OperandChange> changes) {
        return Collections.unmodifiableMap(new TreeMap<>(changes));
    }

    /** Every Linear by one recipe. */
    public static Fp8Settings of(TrainingRecipe recipe) {
        return new Fp8Settings(
                recipe, Set.of(), false, true, false, false, LayerFilter.NONE, Map.of(), List.of(), Map.of());
    }

    /** This with these changes in place of its own. */
    public Fp8Settings with(Map<String, Map<ProductOperand, OperandChange>> otherChanges) {
        return new Fp8Settings(
                recipe,
                highPrecision,
                fakeQuantize,
                fusedNorm,
                exemptFirst,
                exemptLast,
                filter,
                operands,
                overrides,
                otherChanges,
                fakeResults,
                likeHopper);
    }

    /** This with these results of products quantised and widened again, in place of its own. */
    public Fp8Settings withFakeResults(Map<String, Map<Product, OperandSpec>> results) {
        return new Fp8Settings(
                recipe,
                highPrecision,
                fakeQuantize,
                fusedNorm,
                exemptFirst,
                exemptLast,
                filter,
                operands,
                overrides,
                changes,
                results,
                likeHopper);
    }

    /** This with sums as Hopper's FP8 units have them. */
    public Fp8Settings accumulatingLikeHopper() {
        return new Fp8Settings(
                recipe,
                highPrecision,
                fakeQuantize,
                fusedNorm,
                exemptFirst,
                exemptLast,
                filter,
                operands,
                overrides,
                changes,
                fakeResults,
                true);
    }

    /** This with all products computed in the narrow type from what codes stand for. */
    public Fp8Settings faked() {
        return new Fp8Settings(
                recipe,
                highPrecision,
                true,
                fusedNorm,
                exemptFirst,
                exemptLast,
                filter,
                operands,
                overrides,
                changes,
                fakeResults,
                likeHopper);
    }

    /**
     * What is different for some layers.
     *
     * @param layers found in the name of the Linear's node or of its weight
     * @param fp8 false: these layers are computed as autocast has them
     * @param recipe null: the one of all
     * @param highPrecision null: as for all
     * @param fakeQuantize null: as for all
     * @param operands single operands that are not quantised as the recipe says, in place of those for all
     */
    public record LayerOverride(
            Pattern layers,
            boolean fp8,
            @Nullable TrainingRecipe recipe,
            @Nullable Set<Product> highPrecision,
            @Nullable Boolean fakeQuantize,
            Map<ProductOperand, OperandChange> operands) {
        public LayerOverride {
            operands = sorted(operands);
        }

        boolean matches(String node, String weight) {
            return layers.matcher(node).find() || layers.matcher(weight).find();
        }
    }
}
