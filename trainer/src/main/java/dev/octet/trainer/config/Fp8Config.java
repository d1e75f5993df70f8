package dev.octet.trainer.config;

import dev.octet.quant.recipe.Fp8Format;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.recipe.TrainingRecipe.BackwardOverride;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.Fp8Settings.LayerOverride;
import dev.octet.trainer.precision.LayerFilter;
import dev.octet.trainer.yaml.Section;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Reads {@code mode: fp8}: the recipe, its fields under the names of the libraries they come from, and per-layer overrides. */
final class Fp8Config {
    private static final String RECIPE = "recipe";
    private static final String INTERVAL = "interval";
    private static final String HIGH_PRECISION = "high_precision";
    private static final String FAKE_QUANTIZE = "fake_quantize";
    private static final String OVERRIDE_PRECISION = "override_linear_precision";

    private static final Map<String, Function<Section, TrainingRecipe>> RECIPES = Map.of(
            "deployed", Fp8Config::deployed,
            "delayed", Fp8Config::delayed,
            "current", Fp8Config::current,
            "block", Fp8Config::block,
            "mxfp8", Fp8Config::mxfp8,
            "tensorwise", s -> new TrainingRecipe.Tensorwise(s.flag("round_scales_to_power_of_2", false)),
            "rowwise", s -> new TrainingRecipe.Rowwise(),
            "rowwise_with_gw_hp", s -> new TrainingRecipe.RowwiseWithGwHp());
    private static final Map<String, Fp8Format> FORMATS = Map.of("HYBRID", Fp8Format.HYBRID, "E4M3", Fp8Format.E4M3);
    private static final Map<String, AmaxHistory.Algorithm> ALGORITHMS =
            Map.of("max", AmaxHistory.Algorithm.MAX, "most_recent", AmaxHistory.Algorithm.MOST_RECENT);
    private static final Map<String, BackwardOverride> OVERRIDES = Map.of(
            "none", BackwardOverride.NONE,
            "high_precision", BackwardOverride.HIGH_PRECISION,
            "dequantized", BackwardOverride.DEQUANTIZED);
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
        return s.choice(RECIPE, RECIPES, Fp8Config::delayed).apply(s);
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

    private static Fp8Format format(Section s, Fp8Format usual) {
        if ("E5M2".equals(s.text("fp8_format").orElse(""))) {
            throw s.error("fp8_format", "E5M2 in both directions does not train", "valid: HYBRID, E4M3");
        }
        return s.choice("fp8_format", FORMATS, usual);
    }

    private static TrainingRecipe delayed(Section s) {
        s.whole(INTERVAL, 1, -1, Integer.MAX_VALUE); // see notes
        TrainingRecipe.DelayedScaling usual = TrainingRecipe.DelayedScaling.DEFAULT;
        int most = TrainingRecipe.DelayedScaling.MAX_MARGIN;
        return new TrainingRecipe.DelayedScaling(
                (int) s.whole("margin", usual.margin(), -most, most),
                format(s, usual.format()),
                (int) s.whole("amax_history_len", usual.amaxHistoryLength(), 1, 1 << 20),
                s.choice("amax_compute_algo", ALGORITHMS, usual.amaxAlgorithm()),
                s.flag("fused_update", usual.fusedUpdate()),
                s.flag("reduce_amax", usual.reduceAmax()),
                wgradInHighPrecision(s));
    }

    /** Reads Accelerate's three flags; Transformer Engine accepts only all false, or only the last one true. */
    private static boolean wgradInHighPrecision(Section s) {
        // Python writes True and False, so any case is read
        List<String> flags = s.texts(OVERRIDE_PRECISION).stream()
                .map(f -> f.toLowerCase(Locale.ROOT))
                .toList();
        if (!flags.isEmpty() && !flags.equals(List.of("false", "false", "false"))) {
            if (flags.equals(List.of("false", "false", "true"))) {
                return true;
            }
            throw s.error(
                    OVERRIDE_PRECISION,
                    flags + " is not supported by delayed scaling",
                    "give [false, false, true] or nothing; " + HIGH_PRECISION + ": [...] accepts any product");
        }
        return false;
    }

    private static TrainingRecipe deployed(Section s) {
        return new TrainingRecipe.Deployed(
                (int) s.whole("amax_history_len", TrainingRecipe.Deployed.DEFAULT.amaxHistoryLength(), 1, 1 << 20));
    }

    private static TrainingRecipe current(Section s) {
        TrainingRecipe.CurrentScaling usual = TrainingRecipe.CurrentScaling.DEFAULT;
        return new TrainingRecipe.CurrentScaling(
                s.flag("use_power_2_scales", usual.powerOfTwoScales()),
                format(s, usual.format()),
                epsilon(s),
                s.choice("backward_override", OVERRIDES, usual.backwardOverride()));
    }

    private static float epsilon(Section s) {
        return (float) s.number("amax_epsilon", 0, 0, Float.MAX_VALUE);
    }

    private static TrainingRecipe block(Section s) {
        TrainingRecipe.BlockScaling usual = TrainingRecipe.BlockScaling.DEFAULT;
        int x = (int) s.whole("x_block_scaling_dim", usual.inputDim(), 1, 2);
        int w = (int) s.whole("w_block_scaling_dim", usual.weightDim(), 1, 2);
        int grad = (int) s.whole("grad_block_scaling_dim", usual.gradientDim(), 1, 2);
        if (x + w == 4 || grad + w == 4 || x + grad == 4) {
            throw s.error(RECIPE, "two operands of one product cannot both have square blocks", "give one of them 1");
        }
        return new TrainingRecipe.BlockScaling(
                s.flag("use_f32_scales", usual.f32Scales()),
                format(s, usual.format()),
                epsilon(s),
                x,
                w,
                grad,
                s.choice("backward_override", OVERRIDES, usual.backwardOverride()));
    }

    private static TrainingRecipe mxfp8(Section s) {
        TrainingRecipe.Mxfp8 usual = TrainingRecipe.Mxfp8.DEFAULT;
        return new TrainingRecipe.Mxfp8(
                format(s, usual.format()),
                s.flag("enable_2d_quantization", usual.twoDimensionalWeights()),
                s.choice("backward_override", OVERRIDES, usual.backwardOverride()));
    }
}
