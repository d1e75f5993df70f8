package dev.octet.quant.layout;

import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.Operand;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Which recipe quantises weights as they lie in a checkpoint. */
final class StoredRecipes {
    private StoredRecipes() {}

    /** The name of the recipe that all weights follow; null when there is none, or not one for all. */
    static @Nullable String of(Map<String, StoredWeight> weights) {
        String all = null;
        for (StoredWeight weight : weights.values()) {
            String one = of(weight);
            if (one == null || (all != null && !all.equals(one))) {
                return null;
            }
            all = one;
        }
        return all;
    }

    private static @Nullable String of(StoredWeight weight) {
        if (weight.scale() == null || (weight.codes() == QuantType.E2M1 && weight.globalScale() == null)) {
            return null;
        }
        for (Recipe recipe : Recipes.CHECKPOINT) {
            Operand operand = recipe.fprop().weight();
            if (operand.codes() == weight.codes() && operand.granularity().equals(weight.granularity())) {
                return recipe.name();
            }
        }
        return null;
    }
}
