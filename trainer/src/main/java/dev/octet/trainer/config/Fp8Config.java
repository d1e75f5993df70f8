package dev.octet.trainer.config;

import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.Fp8Settings.LayerOverride;
import dev.octet.trainer.precision.LayerFilter;
import dev.octet.trainer.precision.OperandChange;
import dev.octet.trainer.yaml.Section;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** Reads what {@code mode: fp8} takes: the recipe with its own fields, and what is different for some layers. */
final class Fp8Config {
    private static final String RECIPE = "recipe";
    private static final String INTERVAL = "interval";
    private static final String HIGH_PRECISION = "high_precision";
    private static final String CURRENT = "current";
    private static final String FAKE_QUANTIZE = "fake_quantize";
    private static final String ACCUMULATION = "accumulation";

    /** Whether codes add up as Hopper's FP8 units do. */
    private static final Map<String, Boolean> ACCUMULATIONS = Map.of("f32", false, "hopper", true);

    private static final Map<String, LayerFilter> FILTERS = Map.of(
            "none", LayerFilter.NONE,
            "multiple_of_16", LayerFilter.MULTIPLE_OF_16,
            "torchao_rowwise", LayerFilter.TORCHAO_ROWWISE,
            "torchao_tensorwise", LayerFilter.TORCHAO_TENSORWISE);

    /** Whether {@code base} replaces FP8 on a device that does not multiply FP8. */
    private static final Map<String, Boolean> ON_UNSUPPORTED = Map.of("refuse", false, "base", true);

    private Fp8Config() {}

    /** Notes on accepted keys that have no effect. */
    static List<String> notes(Section s, TrainingRecipe recipe) {
        return recipe.isDelayed() && s.has(INTERVAL)
                ? List.of("precision.interval = " + s.text(INTERVAL).orElse("")
                        + " has no effect: Transformer Engine ignored it and later removed it; scales are updated with"
                        + " every micro-batch")
                : List.of();
    }

    static Fp8Policy read(Section s, Autocast base) {
        TrainingRecipe recipe = recipe(s);
        Map<ProductOperand, OperandChange> operands = operands(s, recipe);
        Fp8Settings settings = new Fp8Settings(
                recipe,
                products(s),
                s.flag(FAKE_QUANTIZE, false),
                s.flag("fused_norm", true),
                s.flag("exempt_first", false),
                s.flag("exempt_last", false),
                s.choice("filter", FILTERS, LayerFilter.NONE),
                operands,
                s.sections("layers").stream()
                        .map(l -> l.read(layer -> layer(layer, recipe, operands)))
                        .toList(),
                Map.of());
        boolean likeHopper = s.choice(ACCUMULATION, ACCUMULATIONS, false);
        if (likeHopper) {
            requireOneScaleForEachSum(s, recipe);
            settings.overrides().stream()
                    .map(LayerOverride::recipe)
                    .filter(Objects::nonNull)
                    .forEach(r -> requireOneScaleForEachSum(s, r));
        }
        return new Fp8Policy(
                base,
                likeHopper ? settings.accumulatingLikeHopper() : settings,
                s.choice("on_unsupported", ON_UNSUPPORTED, false));
    }

    /** Scales of blocks are multiplied between sums, which nobody has measured yet. */
    private static void requireOneScaleForEachSum(Section s, TrainingRecipe recipe) {
        for (ProductOperand operand : Arrays.stream(Product.values())
                .flatMap(p -> ProductOperand.of(p).stream())
                .toList()) {
            OperandSpec spec = recipe.operand(operand.product(), operand.tensor());
            if (spec != null
                    && !(spec.granularity() instanceof Granularity.PerTensor)
                    && !(spec.granularity() instanceof Granularity.PerToken)
                    && !(spec.granularity() instanceof Granularity.PerChannel)) {
                throw s.error(
                        ACCUMULATION,
                        "the sums of an FP8 unit are known for recipes with one scale for each of them, not for "
                                + recipe.name(),
                        "leave the key out, or choose recipe: delayed, current, tensorwise or rowwise");
            }
        }
    }

    /**
     * One item of {@code layers}.
     *
     * @param usual the recipe of all
     * @param usualOperands the changes of all
     */
    private static LayerOverride layer(
            Section s, TrainingRecipe usual, Map<ProductOperand, OperandChange> usualOperands) {
        @Nullable TrainingRecipe recipe = s.has(RECIPE) ? recipe(s) : null;
        @Nullable Set<Product> products = s.has(HIGH_PRECISION) ? products(s) : null;
        @Nullable Boolean fake = s.has(FAKE_QUANTIZE) ? s.flag(FAKE_QUANTIZE, false) : null;
        boolean fp8 = s.flag("fp8", true);
        s.requiredText("match");
        boolean changed = s.has(HIGH_PRECISION) || s.has(CURRENT);
        Map<ProductOperand, OperandChange> operands =
                changed ? operands(s, recipe == null ? usual : recipe) : fp8 ? usualOperands : Map.of();
        if (!fp8 && (recipe != null || changed || fake != null)) {
            throw s.error("fp8", "a layer without FP8 has no recipe", "leave out fp8: false, or the other keys");
        }
        return new LayerOverride(s.patterns("match").getFirst(), fp8, recipe, products, fake, operands);
    }

    private static TrainingRecipe recipe(Section s) {
        return s.choice(
                        RECIPE,
                        Recipes.TRAINING,
                        Recipes.TRAINING.values().iterator().next())
                .apply(s);
    }

    /** Products of which both operands stay in the narrow type. */
    private static Set<Product> products(Section s) {
        Set<Product> products = EnumSet.noneOf(Product.class);
        Set<ProductOperand> all = named(s, HIGH_PRECISION);
        for (Product product : Product.values()) {
            if (all.containsAll(ProductOperand.of(product))) {
                products.add(product);
            }
        }
        if (products.size() == Product.values().length) {
            throw s.error(HIGH_PRECISION, "no product is left in FP8", "choose mode: bf16, or fp8: false for a layer");
        }
        return products;
    }

    /** Single operands that stay in the narrow type, and those with current in place of delayed scaling. */
    private static Map<ProductOperand, OperandChange> operands(Section s, TrainingRecipe recipe) {
        Map<ProductOperand, OperandChange> changes = new TreeMap<>();
        Set<Product> products = products(s);
        for (ProductOperand operand : named(s, HIGH_PRECISION)) {
            if (!products.contains(operand.product())) {
                changes.put(operand, new OperandChange.Unquantised());
            }
        }
        for (ProductOperand operand : named(s, CURRENT)) {
            if (!recipe.isDelayed()) {
                throw s.error(
                        CURRENT,
                        "recipe " + recipe.name() + " has no delayed scale that current scaling could replace",
                        "leave the key out, or choose recipe: delayed");
            }
            if (products.contains(operand.product()) || changes.containsKey(operand)) {
                throw s.error(CURRENT, operand + " is in high_precision, too", "write it in one of the two");
            }
            changes.put(operand, new OperandChange.Current());
        }
        return changes;
    }

    /** The operands that a list names: whole products, such as {@code dgrad}, and single ones, such as {@code dgrad.grad_output}. */
    private static Set<ProductOperand> named(Section s, String key) {
        Set<ProductOperand> operands = new TreeSet<>();
        for (String name : s.texts(key)) {
            operands.addAll(ProductOperand.named(name)
                    .orElseThrow(() -> s.error(
                            key,
                            "unknown product '" + name + "'",
                            "valid: fprop, dgrad, wgrad, "
                                    + ProductOperand.ALL.stream()
                                            .map(ProductOperand::toString)
                                            .collect(Collectors.joining(", ")))));
        }
        return operands;
    }
}
