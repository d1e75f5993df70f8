package dev.octet.quant.layout;

import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.Comparator;
import java.util.Map;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** Which recipe quantises weights as they lie in a checkpoint. */
final class StoredRecipes {
    private StoredRecipes() {}

    /**
     * The name of the recipe that all weights follow; null when there is none, or not one for all.
     *
     * @param weightOnly whether the configuration says that the inputs of a weight are not quantised
     */
    static @Nullable String of(Map<String, StoredWeight> weights, Predicate<StoredWeight> weightOnly) {
        String all = null;
        for (StoredWeight weight : weights.values()) {
            String one = of(weight, weightOnly.test(weight));
            if (one == null || (all != null && !all.equals(one))) {
                return null;
            }
            all = one;
        }
        return all;
    }

    private static @Nullable String of(StoredWeight weight, boolean weightOnly) {
        if (weight.scale() == null || (weight.codes() == QuantType.E2M1 && weight.globalScale() == null)) {
            return null;
        }
        return Recipes.CHECKPOINT.stream()
                .map(r -> r.withGroups(weight.granularity()))
                .filter(r -> r.weight().type() == weight.codes()
                        && r.weight().granularity().equals(weight.granularity()))
                .min(Comparator.comparing(r -> (r.input() == null) != weightOnly))
                .map(Recipe::name)
                .orElse(null);
    }
}
