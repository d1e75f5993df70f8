package dev.octet.trainer.config;

import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.Fp8Settings.LayerOverride;
import dev.octet.trainer.precision.LayerFilter;
import dev.octet.trainer.yaml.Section;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Reads what {@code mode: fp8} takes: the recipe with its own fields, and what is different for some layers. */
final class Fp8Config {
    private static final String RECIPE = "recipe";
    private static final String INTERVAL = "interval";
    private static final String HIGH_PRECISION = "high_precision";
    private static final String FAKE_QUANTIZE = "fake_quantize";

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
        return new Fp8Policy(
                base,
                new Fp8Settings(
                        recipe,
                        products(s),
                        s.flag(FAKE_QUANTIZE, false),
                        s.flag("fused_norm", true),
                        s.flag("exempt_first", false),
                        s.flag("exempt_last", false),
                        s.choice("filter", FILTERS, LayerFilter.NONE),
                        s.sections("layers").stream()
                                .map(l -> l.read(Fp8Config::layer))
                                .toList()),
                s.choice("on_unsupported", ON_UNSUPPORTED, false));
    }

    private static LayerOverride layer(Section s) {
        @Nullable TrainingRecipe recipe = s.has(RECIPE) ? recipe(s) : null;
        @Nullable Set<Product> products = s.has(HIGH_PRECISION) ? products(s) : null;
        @Nullable Boolean fake = s.has(FAKE_QUANTIZE) ? s.flag(FAKE_QUANTIZE, false) : null;
        boolean fp8 = s.flag("fp8", true);
        s.requiredText("match");
        if (!fp8 && (recipe != null || products != null || fake != null)) {
            throw s.error("fp8", "a layer without FP8 has no recipe", "leave out fp8: false, or the other keys");
        }
        return new LayerOverride(s.patterns("match").getFirst(), fp8, recipe, products, fake);
    }

    private static TrainingRecipe recipe(Section s) {
        return s.choice(
                        RECIPE,
                        Recipes.TRAINING,
                        Recipes.TRAINING.values().iterator().next())
                .apply(s);
    }

    private static Set<Product> products(Section s) {
        Set<Product> products = EnumSet.noneOf(Product.class);
        for (String name : s.texts(HIGH_PRECISION)) {
            products.add(
                    switch (name) {
                        case "fprop" -> Product.FPROP;
                        case "dgrad" -> Product.DGRAD;
                        case "wgrad" -> Product.WGRAD;
                        default ->
                            throw s.error(
                                    HIGH_PRECISION, "unknown product '" + name + "'", "valid: fprop, dgrad, wgrad");
                    });
        }
        if (products.size() == Product.values().length) {
            throw s.error(HIGH_PRECISION, "no product is left in FP8", "choose mode: bf16, or fp8: false for a layer");
        }
        return products;
    }
}
