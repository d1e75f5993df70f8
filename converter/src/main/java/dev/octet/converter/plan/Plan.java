package dev.octet.converter.plan;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.quant.recipe.Recipe;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A recipe and one decision per candidate layer, in graph order. Immutable.
 *
 * <p>Invariant: a converted normalisation has at least one converted Linear that reads its output.
 */
public record Plan(Recipe recipe, List<Decision> decisions) {
    public Plan {
        decisions = List.copyOf(decisions);
    }

    /** The same decisions by another recipe. */
    public Plan withRecipe(Recipe other) {
        return new Plan(other, decisions);
    }

    /** The converted layers. */
    public List<Decision.Converted> converted() {
        return decisions.stream()
                .filter(Decision.Converted.class::isInstance)
                .map(Decision.Converted.class::cast)
                .toList();
    }

    /** The kept layers with their reasons. */
    public List<Decision.Kept> kept() {
        return decisions.stream()
                .filter(Decision.Kept.class::isInstance)
                .map(Decision.Kept.class::cast)
                .toList();
    }

    /** Converted layers of one kind. */
    public List<Decision.Converted> converted(LayerKind kind) {
        return converted().stream().filter(d -> d.kind() == kind).toList();
    }

    /** How many candidates of a kind were decided on, converted or kept. */
    public int count(LayerKind kind) {
        return (int) decisions.stream().filter(d -> d.kind() == kind).count();
    }

    /** Distinct inputs of converted Linears, in graph order. */
    public Set<String> linearInputs() {
        Set<String> inputs = new LinkedHashSet<>();
        converted(LayerKind.LINEAR).forEach(d -> inputs.add(d.input()));
        return inputs;
    }

    /** The values whose statistics the recipe needs: {@link #linearInputs}; empty for weight-only recipes. */
    public Set<String> taps() {
        return recipe.needsStatistics() ? linearInputs() : Set.of();
    }

    /**
     * Checks that there is something to calibrate.
     *
     * @throws UnsupportedModelException when {@link #taps} is empty, with the reason
     */
    public void requireTaps() {
        if (!taps().isEmpty()) {
            return;
        }
        throw nothingTo(
                "calibrate",
                recipe.needsStatistics() ? whyNoLinear() : "recipe " + recipe.name() + " needs no statistics");
    }

    /**
     * Why nothing is converted, as an exception to throw; empty where something is.
     *
     * <p>A plan that converts nothing is only good to look at: the model would be written as it is.
     */
    public Optional<UnsupportedModelException> nothing() {
        boolean some =
                converted().stream().anyMatch(d -> !d.kind().isNorm());
        return some ? Optional.empty() : Optional.of(nothingTo("quantise", whyNoLinear()));
    }

    private String whyNoLinear() {
        int linears = count(LayerKind.LINEAR);
        return linears == 0
                ? "the model has no Linear, that is not a MatMul or Gemm with a constant matrix"
                : linears == 1 ? "the model's only Linear is kept" : "all " + linears + " Linears are kept";
    }

    private UnsupportedModelException nothingTo(String what, String why) {
        return new UnsupportedModelException(
                "there is nothing to " + what + ": " + why,
                kept().stream()
                        .findFirst()
                        .map(k -> k.kind().label() + " " + k.node() + ": " + k.reason())
                        .orElse("plan of " + decisions.size() + " layers"),
                "`octet quantize --dry-run` lists every layer with its reason; `octet inspect` shows the operators");
    }

    /**
     * The plan with some layers kept, and the normalisations whose output is then not read by any converted Linear.
     *
     * @param reasons by node id; nodes that are already kept or not in the plan change nothing
     */
    public Plan keeping(Map<String, String> reasons) {
        if (reasons.isEmpty()) {
            return this;
        }
        List<Decision> fewer = decisions.stream()
                .map(d -> d instanceof Decision.Converted && reasons.containsKey(d.node())
                        ? new Decision.Kept(d.node(), d.kind(), reasons.getOrDefault(d.node(), ""))
                        : d)
                .toList();
        Set<String> read = new Plan(recipe, fewer).linearInputs();
        return new Plan(
                recipe,
                fewer.stream()
                        .map(d -> d instanceof Decision.Converted c && c.kind().isNorm() && !read.contains(c.output())
                                ? new Decision.Kept(
                                        c.node(),
                                        c.kind(),
                                        "no " + recipe.weight().type().family() + " Linear reads its output")
                                : d)
                        .toList());
    }

    /** One line per decision, for logs and dumps. */
    public String text() {
        List<String> lines = new ArrayList<>();
        for (Decision d : decisions) {
            lines.add(
                    switch (d) {
                        case Decision.Converted c -> "convert " + c.kind().label() + " " + c.node() + ": " + c.note();
                        case Decision.Kept k -> "keep    " + k.kind().label() + " " + k.node() + ": " + k.reason();
                    });
        }
        return String.join(System.lineSeparator(), lines);
    }
}
