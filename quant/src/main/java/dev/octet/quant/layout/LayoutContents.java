package dev.octet.quant.layout;

import dev.octet.quant.recipe.Recipe;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What a checkpoint about to be written holds: all that its configuration must say.
 *
 * @param recipe how weights and activations are quantised, the first of them where there are several recipes
 * @param options the choices made
 * @param quantized the quantised weights, in the order of the checkpoint
 * @param keptLinears modules that a consumer takes for a Linear and that are not quantised, in order: {@code lm_head}, routers, kept ones,
 *     and fused tensors of experts by their own names ({@code model.layers.0.mlp.experts.gate_up_proj}): see {@link #keptModules}; a
 *     part {@code *} stands for any number
 * @param attention how attention layers are quantised
 * @param attentionClasses classes of the modules that attend, where queries have scales; empty otherwise
 * @param others recipes of quantised weights that have another one, by their own name; empty unless the layout {@linkplain Layout#mixes
 *     mixes} recipes
 */
public record LayoutContents(
        Recipe recipe,
        LayoutOptions options,
        List<StoredWeight> quantized,
        List<String> keptLinears,
        AttentionScheme attention,
        List<String> attentionClasses,
        Map<String, Recipe> others) {
    public LayoutContents {
        attentionClasses = List.copyOf(attentionClasses);
        quantized = List.copyOf(quantized);
        keptLinears = List.copyOf(keptLinears);
        others = Map.copyOf(others);
    }

    /** Contents with one recipe for all weights, whose queries have no scales. */
    public LayoutContents(
            Recipe recipe,
            LayoutOptions options,
            List<StoredWeight> quantized,
            List<String> keptLinears,
            AttentionScheme attention) {
        this(recipe, options, quantized, keptLinears, attention, List.of(), Map.of());
    }

    /** Whether attention layers have scales of their cached keys and values. */
    boolean hasCacheScales() {
        return attention != AttentionScheme.NONE;
    }

    /** The recipe of a quantised weight. */
    Recipe recipeOf(StoredWeight weight) {
        return others.getOrDefault(weight.name(), recipe);
    }

    /** The quantised weights by their recipe, in the order of the checkpoint. */
    Map<Recipe, List<StoredWeight>> byRecipe() {
        Map<Recipe, List<StoredWeight>> groups = new LinkedHashMap<>();
        quantized.forEach(
                w -> groups.computeIfAbsent(recipeOf(w), _ -> new ArrayList<>()).add(w));
        return groups;
    }

    /**
     * What {@link #keptLinears} are called in a model: consumers know fused experts by the module that holds them,
     * {@code model.layers.0.mlp.experts}.
     */
    List<String> keptModules() {
        return keptLinears.stream()
                .map(k -> isFusedExperts(k) ? k.substring(0, k.lastIndexOf('.')) : k)
                .distinct()
                .toList();
    }

    /** The regular expression for a module of {@link #keptModules} with {@code *} for numbers; empty for a plain name. */
    static Optional<String> expression(String kept) {
        return kept.contains("*") ? Optional.of(kept.replace(".", "\\.").replace("*", "\\d+") + "$") : Optional.empty();
    }

    /** Whether this is a tensor in a module of experts, rather than a module of one expert. */
    private static boolean isFusedExperts(String name) {
        int dot = name.lastIndexOf('.');
        String parent = name.substring(0, Math.max(0, dot));
        boolean inExperts = parent.equals("experts") || parent.endsWith(".experts");
        return inExperts && !name.substring(dot + 1).chars().allMatch(Character::isDigit);
    }
}
