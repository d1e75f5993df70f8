package dev.octet.trainer.replay;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.file.Sha256;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.recipe.TrainingRecipe.BackwardOverride;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.Fp8Settings.LayerOverride;
import dev.octet.trainer.precision.LayerFilter;
import dev.octet.trainer.precision.OperandChange;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The variants of one FP8 policy. A variant's key names the changes it makes; layers go by their place among the layers in FP8. */
final class Variants {
    /** What the key of {@link #reference} begins with. */
    static final String REFERENCE = "reference ";

    private static final int LONGEST_KEY = 200;

    private final Fp8Policy policy;

    /** Layers in FP8 by the policy, by node, in the graph's order. */
    private final Map<String, Fp8Layer> layers = new LinkedHashMap<>();

    private final List<String> order;

    Variants(Fp8Policy policy, List<Fp8Layer> layers) {
        this.policy = policy;
        layers.forEach(l -> this.layers.put(l.node(), l));
        this.order = List.copyOf(this.layers.keySet());
    }

    /** Number of layers in FP8. */
    int layerCount() {
        return order.size();
    }

    /** Products of which an operand is quantised, fprop of all layers first, then dgrad, then wgrad. */
    List<List<LayerProduct>> suspects() {
        List<List<LayerProduct>> all = new ArrayList<>();
        for (Product product : Product.values()) {
            List<LayerProduct> of = layers.values().stream()
                    .filter(l -> l.isQuantized(product))
                    .map(l -> new LayerProduct(l.node(), l.module(), product))
                    .toList();
            if (!of.isEmpty()) {
                all.add(of);
            }
        }
        return all;
    }

    /** All of {@link #suspects}. */
    List<LayerProduct> all() {
        return suspects().stream().flatMap(List::stream).toList();
    }

    /** Products in FP8, in words. */
    String words(Set<LayerProduct> inFp8) {
        List<LayerProduct> others =
                all().stream().filter(p -> !inFp8.contains(p)).toList();
        if (inFp8.size() <= 1 || others.size() > 1) {
            List<LayerProduct> ordered = all().stream().filter(inFp8::contains).toList();
            return ordered.isEmpty() ? "nothing in FP8" : "only " + shown(ordered) + " in FP8";
        }
        return "all but " + shown(others) + " in FP8";
    }

    private String shown(List<LayerProduct> products) {
        List<String> parts = new ArrayList<>();
        for (Product product : Product.values()) {
            List<LayerProduct> of =
                    products.stream().filter(p -> p.product() == product).toList();
            long all = all().stream().filter(p -> p.product() == product).count();
            String name = product.name().toLowerCase(Locale.ROOT);
            if (of.size() == all && all > 1) {
                parts.add(name);
            } else if (of.size() == 1) {
                parts.add(of.getFirst().toString());
            } else if (!of.isEmpty()) {
                parts.add(name + " of " + of.size() + " layers, "
                        + of.getFirst().module() + " to " + of.getLast().module());
            }
        }
        return String.join(", ", parts);
    }

    /** Changes in words. */
    String words(Map<String, Map<ProductOperand, OperandChange>> changes) {
        List<String> parts = new ArrayList<>();
        changes.forEach((node, c) -> c.forEach((operand, change) ->
                parts.add(requireNonNull(layers.get(node)).module() + " " + operand + " in " + name(change))));
        int shown = 2;
        String more = parts.size() > shown ? " and " + (parts.size() - shown) + " more" : "";
        return String.join(", ", parts.subList(0, Math.min(shown, parts.size()))) + more;
    }

    /** How an operand is quantised, if it is. */
    private Optional<OperandSpec> spec(LayerProduct of, LinearTensor tensor) {
        return Optional.ofNullable(layer(of).operand(of.product(), tensor));
    }

    private Fp8Layer layer(LayerProduct of) {
        return requireNonNull(layers.get(of.node()), of.node());
    }

    /** The quantised operands of a product. */
    List<LinearTensor> operands(LayerProduct of) {
        return ProductOperand.of(of.product()).stream()
                .map(ProductOperand::tensor)
                .filter(t -> spec(of, t).isPresent())
                .toList();
    }

    /** Whether current scaling changes an operand. */
    boolean isDelayed(LayerProduct of, LinearTensor tensor) {
        return spec(of, tensor)
                .filter(s -> s.scaling() instanceof Scaling.Delayed)
                .isPresent();
    }

    /** Whether the recipe has products of codes at all. */
    boolean multipliesCodes() {
        return policy.multipliesCodes();
    }

    /** All in the type around the products. */
    Variant reference() {
        return new Variant(REFERENCE + policy.base().name(), policy.base());
    }

    /** F32, the samples of each micro-batch last to first. */
    static Variant otherOrder() {
        return new Variant("fp32 reversed", Autocast.fp32(), true, 0);
    }

    /** As configured. */
    Variant configured() {
        return new Variant("configured", policy);
    }

    /** Mantissas of the recipe's formats, without the limits of their exponents. */
    Variant rounding() {
        Map<String, Map<ProductOperand, OperandChange>> changes = new TreeMap<>();
        for (LayerProduct p : all()) {
            for (LinearTensor tensor : operands(p)) {
                OperandSpec fine = new OperandSpec(
                        spec(p, tensor).orElseThrow().type(),
                        new Granularity.PerGroup(-1, 1),
                        new Scaling.Current(new TransformerEngineScale(0, true, false)));
                put(changes, p, tensor, new OperandChange.Fake(fine));
            }
        }
        return new Variant("rounding", with(changes));
    }

    /** These products in FP8, all others in high precision. */
    Variant only(Set<LayerProduct> products) {
        Map<String, Map<ProductOperand, OperandChange>> changes = new TreeMap<>();
        for (LayerProduct p : all()) {
            if (!products.contains(p)) {
                operands(p).forEach(t -> put(changes, p, t, new OperandChange.Unquantised()));
            }
        }
        return new Variant("only " + shortened(key(products)), with(changes));
    }

    /** The configured policy with changes. */
    Variant changed(Map<String, Map<ProductOperand, OperandChange>> changes) {
        String key = changes.entrySet().stream()
                .map(e -> order.indexOf(e.getKey()) + " "
                        + e.getValue().entrySet().stream()
                                .map(c -> c.getKey() + " " + name(c.getValue()))
                                .collect(Collectors.joining(", ")))
                .collect(Collectors.joining("; "));
        return new Variant("with " + shortened(key), with(changes));
    }

    /** A long key as its digest. */
    private static String shortened(String key) {
        return key.length() <= LONGEST_KEY ? key : Sha256.of(key.getBytes(StandardCharsets.UTF_8));
    }

    private static String name(OperandChange change) {
        return switch (change) {
            case OperandChange.Unquantised _ -> "high precision";
            case OperandChange.Current _ -> "current scaling";
            case OperandChange.Fake(OperandSpec spec) ->
                "fake " + spec.type().name() + " " + Sha256.of(spec.toString().getBytes(StandardCharsets.UTF_8));
        };
    }

    /** {@code fprop 0-5 7, dgrad 3}: layers by their places. */
    private String key(Set<LayerProduct> products) {
        List<String> parts = new ArrayList<>();
        for (Product product : Product.values()) {
            List<Integer> places = products.stream()
                    .filter(p -> p.product() == product)
                    .map(p -> order.indexOf(p.node()))
                    .sorted()
                    .toList();
            if (!places.isEmpty()) {
                parts.add(product.name().toLowerCase(Locale.ROOT) + " " + ranges(places));
            }
        }
        return String.join(", ", parts);
    }

    private static String ranges(List<Integer> places) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < places.size(); ) {
            int last = i;
            while (last + 1 < places.size() && places.get(last + 1) == places.get(last) + 1) {
                last++;
            }
            text.append(text.isEmpty() ? "" : " ").append(places.get(i));
            if (last > i) {
                text.append('-').append(places.get(last));
            }
            i = last + 1;
        }
        return text.toString();
    }

    static void put(
            Map<String, Map<ProductOperand, OperandChange>> changes,
            LayerProduct of,
            LinearTensor tensor,
            OperandChange change) {
        changes.computeIfAbsent(of.node(), _ -> new TreeMap<>()).put(new ProductOperand(of.product(), tensor), change);
    }

    /** The policy with changes on top of those it has. */
    private Fp8Policy with(Map<String, Map<ProductOperand, OperandChange>> changes) {
        Map<String, Map<ProductOperand, OperandChange>> all = new TreeMap<>();
        policy.settings().changes().forEach((node, c) -> all.put(node, new TreeMap<>(c)));
        changes.forEach(
                (node, c) -> all.computeIfAbsent(node, _ -> new TreeMap<>()).putAll(c));
        return policy.with(all);
    }

    /** Codes and scales of the recipe; products of what they stand for, in the narrow type. */
    Variant fake() {
        Map<String, Map<ProductOperand, OperandChange>> changes = new TreeMap<>();
        for (LayerProduct p : all()) {
            operands(p)
                    .forEach(t ->
                            put(changes, p, t, new OperandChange.Fake(spec(p, t).orElseThrow())));
        }
        return new Variant("fake", with(changes));
    }

    /**
     * Some products of codes among fake quantisation. Scales are powers of two from the values of the step and all around the products is in
     * F32: a product of codes and one of what they stand for then differ by the order of their sums alone, and no code by a rounding before
     * it.
     *
     * @param onCodes products of codes
     * @param unquantised products in high precision
     * @param shake 0, or for a measure of noise what {@link Variant} says, with samples last to first
     */
    Variant around(Set<LayerProduct> onCodes, Set<LayerProduct> unquantised, double shake) {
        Map<String, Map<ProductOperand, OperandChange>> changes = new TreeMap<>();
        for (Fp8Layer layer : layers.values()) {
            for (ProductOperand operand : ProductOperand.ALL) {
                LayerProduct p = new LayerProduct(layer.node(), layer.module(), operand.product());
                OperandSpec spec = unquantised.contains(p) ? null : exact(layer, operand);
                if (spec == null) {
                    put(changes, p, operand.tensor(), new OperandChange.Unquantised());
                } else if (!onCodes.contains(p) || !isExact(layer, operand.product())) {
                    put(changes, p, operand.tensor(), new OperandChange.Fake(spec));
                }
            }
        }
        Fp8Settings s = policy.settings();
        List<LayerOverride> overrides = s.overrides().stream()
                .map(o -> new LayerOverride(
                        o.layers(),
                        o.fp8(),
                        o.recipe() == null ? null : exact(o.recipe()),
                        o.highPrecision(),
                        o.fakeQuantize(),
                        o.operands()))
                .toList();
        Fp8Settings exact = new Fp8Settings(
                exact(s.recipe()),
                s.highPrecision(),
                s.fakeQuantize(),
                s.fusedNorm(),
                s.exemptFirst(),
                s.exemptLast(),
                s.filter(),
                s.operands(),
                overrides,
                changes);
        String key = "fp32, codes in [" + shortened(key(onCodes)) + "]"
                + (unquantised.isEmpty() ? "" : ", high precision in [" + shortened(key(unquantised)) + "]")
                + (shake == 0 ? "" : ", reversed, shaken by " + shake);
        return new Variant(key, new Fp8Policy(Autocast.fp32(), exact, policy.replaceable()), shake != 0, shake);
    }

    /** The recipe with powers of two from the values of the step as scales, where there is one. */
    private static TrainingRecipe exact(TrainingRecipe recipe) {
        return switch (recipe) {
            case TrainingRecipe.DelayedScaling d ->
                new TrainingRecipe.CurrentScaling(true, d.format(), 0, BackwardOverride.NONE);
            case TrainingRecipe.CurrentScaling c ->
                new TrainingRecipe.CurrentScaling(true, c.format(), c.amaxEpsilon(), c.backwardOverride());
            case TrainingRecipe.BlockScaling b ->
                new TrainingRecipe.BlockScaling(
                        false,
                        b.format(),
                        b.amaxEpsilon(),
                        b.inputDim(),
                        b.weightDim(),
                        b.gradientDim(),
                        b.backwardOverride());
            case TrainingRecipe.Tensorwise _ -> new TrainingRecipe.Tensorwise(true);
            case TrainingRecipe.Msamp _,
                    TrainingRecipe.Mxfp8 _,
                    TrainingRecipe.Rowwise _,
                    TrainingRecipe.RowwiseWithGwHp _,
                    TrainingRecipe.Qat _ -> recipe;
        };
    }

    /** How an operand is quantised by {@link #exact(TrainingRecipe)}; null where it is not by the policy. */
    private static @Nullable OperandSpec exact(Fp8Layer layer, ProductOperand operand) {
        OperandSpec configured = layer.operand(operand.product(), operand.tensor());
        if (configured == null || layer.changes().get(operand) instanceof OperandChange.Fake) {
            return configured;
        }
        return exact(layer.recipe()).operand(operand.product(), operand.tensor());
    }

    /** Whether a product of codes can be compared with fake quantisation: both operands are quantised, by powers of two. */
    private static boolean isExact(Fp8Layer layer, Product product) {
        return ProductOperand.of(product).stream().allMatch(o -> {
            OperandSpec spec = exact(layer, o);
            return !(layer.changes().get(o) instanceof OperandChange.Fake)
                    && spec != null
                    && spec.scaling() instanceof Scaling.Current(QuantScaleRule rule)
                    && rule.isPowerOfTwo();
        });
    }

    /** For each feature around the products that is in use, by its key in the configuration, the policy without it. */
    Map<String, Variant> withoutFeatures() {
        Fp8Settings s = policy.settings();
        boolean fake = s.fakeQuantize();
        boolean first = s.exemptFirst();
        boolean last = s.exemptLast();
        boolean norm = s.fusedNorm();
        LayerFilter filter = s.filter();
        Map<String, Fp8Policy> without = new LinkedHashMap<>();
        if (norm && layers.values().stream().anyMatch(l -> l.recipe().isDelayed())) {
            without.put("fused_norm", policy(s, fake, false, first, last, filter));
        }
        if (fake) {
            without.put("fake_quantize", policy(s, false, norm, first, last, filter));
        }
        if (filter != LayerFilter.NONE) {
            without.put("filter", policy(s, fake, norm, first, last, LayerFilter.NONE));
        }
        if (first) {
            without.put("exempt_first", policy(s, fake, norm, false, last, filter));
        }
        if (last) {
            without.put("exempt_last", policy(s, fake, norm, first, false, filter));
        }
        Map<String, Variant> variants = new LinkedHashMap<>();
        without.forEach((feature, p) -> variants.put(feature, new Variant("without " + feature, p)));
        return variants;
    }

    private Fp8Policy policy(
            Fp8Settings s,
            boolean fakeQuantize,
            boolean fusedNorm,
            boolean exemptFirst,
            boolean exemptLast,
            LayerFilter filter) {
        Fp8Settings changed = new Fp8Settings(
                s.recipe(),
                s.highPrecision(),
                fakeQuantize,
                fusedNorm,
                exemptFirst,
                exemptLast,
                filter,
                s.operands(),
                s.overrides(),
                s.changes());
        return new Fp8Policy(policy.base(), changed, policy.replaceable());
    }
}
