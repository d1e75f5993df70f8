package dev.octet.converter.plan;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;

/**
 * A recipe and one decision per candidate layer, in graph order. Immutable.
 *
 * <p>Invariants: a converted normalisation has at least one converted Linear that reads its output in codes; Linears that read one value
 * quantise it alike, or not at all.
 *
 * @param recipe of all converted layers but those in {@code others}
 * @param others recipes of single Linears, and of layers of the kinds that have {@linkplain LayerKind#forms forms} of their own, by node id
 */
public record Plan(Recipe recipe, List<Decision> decisions, Map<String, Recipe> others) {
    /** @throws IllegalArgumentException when two Linears quantise one value in different ways */
    public Plan {
        decisions = List.copyOf(decisions);
        others = Collections.unmodifiableMap(new LinkedHashMap<>(others));
        Map<String, OperandSpec> inputs = new LinkedHashMap<>();
        for (Decision d : decisions) {
            if (d instanceof Decision.Converted c) {
                OperandSpec own = others.getOrDefault(c.node(), recipe).input();
                for (String value : operands(c)) {
                    OperandSpec first = own == null ? null : inputs.putIfAbsent(value, own);
                    if (first != null && !first.equals(own)) {
                        throw new IllegalArgumentException("'" + value + "' would be quantised in two ways");
                    }
                }
            }
        }
    }

    /** The values of a layer that are quantised with a scale of their own, if any are. */
    private static List<String> operands(Decision.Converted layer) {
        return layer.kind() == LayerKind.LINEAR ? List.of(layer.input()) : layer.measured();
    }

    /** One recipe for all. */
    public Plan(Recipe recipe, List<Decision> decisions) {
        this(recipe, decisions, Map.of());
    }

    /** The recipe of a converted layer. */
    public Recipe recipe(Decision.Converted layer) {
        return others.getOrDefault(layer.node(), recipe);
    }

    /** The same decisions by other recipes. */
    public Plan withRecipes(UnaryOperator<Recipe> change) {
        Map<String, Recipe> changed = new LinkedHashMap<>();
        others.forEach((node, r) -> changed.put(node, change.apply(r)));
        return new Plan(change.apply(recipe), decisions, changed);
    }

    /**
     * The plan with some Linears of the {@linkplain Recipe#weightOnly weights alone}: their inputs stay in floats. Normalisations whose output is then not
     * read in codes are kept.
     *
     * @param patterns Linears are meant whose node id or weight name one of these finds a match in
     * @throws InvalidOptionException when a pattern matches no converted Linear
     */
    public Plan withWeightsAlone(List<Pattern> patterns) {
        Map<String, Recipe> all = new LinkedHashMap<>(others);
        for (Pattern p : patterns) {
            List<Decision.Converted> matched = converted(LayerKind.LINEAR).stream()
                    .filter(d ->
                            p.matcher(d.node()).find() || p.matcher(d.weight()).find())
                    .toList();
            if (matched.isEmpty()) {
                throw new InvalidOptionException(
                        "pattern '" + p + "' matches no Linear that is quantised",
                        "option weight-only",
                        converted(LayerKind.LINEAR).stream()
                                .findFirst()
                                .map(d -> "patterns are searched in node ids, such as '" + d.node()
                                        + "', and weight names, such as '" + d.weight() + "'")
                                .orElse("leave the pattern out"));
            }
            matched.forEach(d -> all.put(d.node(), recipe(d).weightOnly()));
        }
        return new Plan(recipe, decisions, all).withoutIdleNorms();
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

    /** Those of {@link #linearInputs} that are quantised, with the way. */
    public Map<String, OperandSpec> quantizedInputs() {
        Map<String, OperandSpec> inputs = new LinkedHashMap<>();
        for (Decision.Converted d : converted(LayerKind.LINEAR)) {
            OperandSpec input = recipe(d).input();
            if (input != null) {
                inputs.put(d.input(), input);
            }
        }
        return inputs;
    }

    /** The values whose scales come from statistics, with the way they are quantised. */
    Map<String, OperandSpec> measured() {
        Map<String, OperandSpec> values = new LinkedHashMap<>();
        for (Decision.Converted d : converted()) {
            OperandSpec input = recipe(d).input();
            if (input != null && recipe(d).needsStatistics()) {
                operands(d).forEach(value -> values.put(value, input));
            }
        }
        return values;
    }

    /** Ids of the Linears that multiply integers of 8 bits with such integers. */
    public Set<String> integerProducts() {
        Set<String> nodes = new LinkedHashSet<>();
        for (Decision.Converted d : converted(LayerKind.LINEAR)) {
            OperandSpec input = recipe(d).input();
            boolean integers = input != null
                    && input.type().isInteger()
                    && recipe(d).weight().type() == QuantType.INT8;
            if (integers) {
                nodes.add(d.node());
            }
        }
        return nodes;
    }

    /** Whether scales of any input come from calibration. */
    public boolean needsStatistics() {
        return recipe.needsStatistics() || others.values().stream().anyMatch(Recipe::needsStatistics);
    }

    /**
     * The values whose statistics the recipes need: inputs of Linears with static scales, operands of products of attention with such; empty for
     * weight-only recipes.
     */
    public Set<String> taps() {
        return measured().keySet();
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
        boolean some = converted().stream().anyMatch(d -> !d.kind().isNorm());
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
        return new Plan(recipe, fewer, others).withoutIdleNorms();
    }

    private Plan withoutIdleNorms() {
        Set<String> read = quantizedInputs().keySet();
        return new Plan(
                recipe,
                decisions.stream()
                        .map(d -> d instanceof Decision.Converted c && c.kind().isNorm() && !read.contains(c.output())
                                ? new Decision.Kept(
                                        c.node(),
                                        c.kind(),
                                        "no " + recipe.weight().type().family() + " Linear reads its output")
                                : d)
                        .toList(),
                others);
    }

    /** One line per decision, for logs and dumps. */
    public String text() {
        List<String> lines = new ArrayList<>();
        for (Decision d : decisions) {
            lines.add(
                    switch (d) {
                        case Decision.Converted c ->
                            "convert " + c.kind().label() + " " + c.node() + ": "
                                    + (c.kind() == LayerKind.LINEAR && others.containsKey(c.node())
                                            ? recipe(c).name()
                                            : c.note());
                        case Decision.Kept k -> "keep    " + k.kind().label() + " " + k.node() + ": " + k.reason();
                    });
        }
        return String.join(System.lineSeparator(), lines);
    }
}
