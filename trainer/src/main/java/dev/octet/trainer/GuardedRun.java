package dev.octet.trainer;

import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.trainer.config.GuardConfig;
import dev.octet.trainer.config.GuardConfig.Level;
import dev.octet.trainer.config.GuardConfig.Trigger;
import dev.octet.trainer.guard.Guard;
import dev.octet.trainer.guard.GuardDecision;
import dev.octet.trainer.guard.GuardDecision.LevelChange;
import dev.octet.trainer.guard.GuardDecision.Promoted;
import dev.octet.trainer.guard.GuardedProduct;
import dev.octet.trainer.guard.ProductReading;
import dev.octet.trainer.hook.Fp8Health;
import dev.octet.trainer.hook.GuardFile;
import dev.octet.trainer.hook.GuardReport;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.OperandChange;
import dev.octet.trainer.step.ProductWatch;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/** The guard of a run and what its decisions do to the trainer: which products it has, what they are measured at, by what policy they are computed. */
final class GuardedRun {
    private final Trainer trainer;
    private final GuardConfig config;
    private final Fp8Health health;

    /** The configured policy; null when nothing is in FP8. */
    private final @Nullable Fp8Policy policy;

    /** Layers by the node of their products: one, or the experts' that are computed as one. */
    private final Map<String, List<Fp8Layer>> layers = new LinkedHashMap<>();

    private final Guard guard;
    private final Map<Long, List<GuardDecision>> recorded;
    private @Nullable ProductWatch watch;

    /**
     * The guard of a run that has not begun: the trainer computes as configured.
     *
     * @throws dev.octet.formats.error.InvalidDataException when the decisions to repeat are those of another model
     * @throws IOException when they cannot be read, or the first samples
     */
    GuardedRun(Trainer trainer, Fp8Health health) throws IOException {
        this.trainer = trainer;
        this.health = health;
        this.config = trainer.parts().config().guard();
        this.policy = trainer.fp8Policy().orElse(null);
        List<GuardedProduct> products = new ArrayList<>();
        for (Trainer.Fp8Products each :
                policy != null && config.isOn() ? trainer.fp8Products() : List.<Trainer.Fp8Products>of()) {
            Fp8Layer layer = each.layers().getFirst();
            layers.put(each.node(), each.layers());
            for (Product product : each.products()) {
                if (isGuarded(layer, product)) {
                    String scaling = isDelayed(layer, product) ? "delayed" : scalingOf(layer, product);
                    products.add(new GuardedProduct(each.node(), each.module(), product, scaling));
                }
            }
        }
        this.guard = new Guard(config, products);
        this.recorded =
                config.replay().isPresent() ? GuardFile.read(config.replay().get(), products) : Map.of();
    }

    boolean isOn() {
        return config.isOn();
    }

    Guard guard() {
        return guard;
    }

    /** Whether both operands of a product are quantised by the recipe or as configured; otherwise nothing is left to demote, or another decides on it. */
    private static boolean isGuarded(Fp8Layer layer, Product product) {
        return layer.operand(product, product.left()) != null
                && layer.operand(product, product.right()) != null
                && ProductOperand.of(product).stream()
                        .noneMatch(o -> layer.changes().get(o) instanceof OperandChange.Fake);
    }

    private static boolean isDelayed(Fp8Layer layer, Product product) {
        return isDelayed(layer, product, product.left()) || isDelayed(layer, product, product.right());
    }

    private static boolean isDelayed(Fp8Layer layer, Product product, LinearTensor tensor) {
        OperandSpec spec = layer.operand(product, tensor);
        return spec != null && spec.scaling() instanceof Scaling.Delayed;
    }

    /** What the scaling of a product that is not delayed is called. */
    private static String scalingOf(Fp8Layer layer, Product product) {
        return layer.recipe().isDelayed() && layer.changes().keySet().containsAll(ProductOperand.of(product))
                ? "current"
                : layer.recipe().name();
    }

    /** Restores the guard's state; the trainer goes on by its decisions. */
    void recall(Map<String, String> remembered) {
        guard.recall(remembered);
        apply();
    }

    /** Computes, and reads data, as the guard has decided. */
    private void apply() {
        trainer.skip(guard.skipped());
        if (policy == null) {
            return;
        }
        Map<String, Map<ProductOperand, OperandChange>> changes = new TreeMap<>();
        policy.settings().changes().forEach((node, c) -> changes.put(node, new TreeMap<>(c)));
        guard.demoted().forEach((product, level) -> {
            for (Fp8Layer layer : layers(product)) {
                Map<ProductOperand, OperandChange> of = changes.computeIfAbsent(layer.node(), _ -> new TreeMap<>());
                for (ProductOperand operand : ProductOperand.of(product.product())) {
                    of.put(
                            operand,
                            level == Level.CURRENT ? new OperandChange.Current() : new OperandChange.Unquantised());
                }
            }
        });
        trainer.usePolicy(policy.with(changes));
    }

    /** Before a step: measures its products if that is due. */
    void beforeStep(long step) {
        watch = guard.measures(step) ? watch(step) : null;
        trainer.session().watch(watch);
    }

    private ProductWatch watch(long step) {
        List<ProductWatch.Watched> watched = new ArrayList<>();
        Map<String, Long> ages = new HashMap<>();
        for (GuardedProduct p : guard.products()) {
            for (Fp8Layer layer : layers(p)) {
                watched.add(new ProductWatch.Watched(
                        p, layer, guard.level(p), guard.above(p).orElse(null)));
                for (ProductOperand o : ProductOperand.of(p.product())) {
                    String slot = layer.slot(o.tensor());
                    ages.put(slot, health.scaleAge(step, slot));
                }
            }
        }
        return new ProductWatch(
                watched, new ProductWatch.Known(config.sample(), step, guard.amaxes(), ages, config.scaleDrift()));
    }

    private List<Fp8Layer> layers(GuardedProduct product) {
        List<Fp8Layer> own = layers.get(product.node());
        if (own == null) {
            throw new IllegalStateException(product.id());
        }
        return own;
    }

    /**
     * After a step: decides on products, or repeats what was decided after it in the run that is replayed.
     *
     * @param before dequantisation multipliers of delayed scales during the step, by slot
     * @param after those from now on
     * @param skipped whether the step changed nothing, so that its gradients say nothing of those to come
     */
    List<GuardDecision> afterStep(long step, Map<String, Float> before, Map<String, Float> after, boolean skipped) {
        if (config.replay().isPresent()) {
            List<GuardDecision> repeated = recorded.getOrDefault(step, List.of());
            Set<String> live = live();
            repeated.forEach(guard::repeat);
            repeated.forEach(d -> seed(d, live));
            if (!repeated.isEmpty()) {
                apply();
            }
            return repeated;
        }
        ProductWatch measured = watch;
        List<ProductReading> readings = new ArrayList<>(skipped ? List.of() : jumps(before, after));
        if (measured != null && !skipped) {
            readings.addAll(measured.readings());
        }
        Set<String> live = live();
        List<GuardDecision> decisions = new ArrayList<>();
        for (LevelChange change : guard.judge(step, readings)) {
            GuardDecision decision = change instanceof Promoted p && measured != null
                    ? p.withSeeds(seeds(p, live, measured.amaxes()))
                    : change;
            seed(decision, live);
            decisions.add(decision);
        }
        if (measured != null) {
            guard.keepAmaxes(kept(measured.amaxes()));
        }
        if (!decisions.isEmpty()) {
            apply();
        }
        return decisions;
    }

    /** How far the amax of each delayed scale has outgrown it, as the scale has followed. */
    private List<ProductReading> jumps(Map<String, Float> before, Map<String, Float> after) {
        if (!guard.watchesScales()) {
            return List.of();
        }
        List<ProductReading> readings = new ArrayList<>();
        for (GuardedProduct p : guard.products()) {
            if (guard.level(p) == Level.CONFIGURED && p.isDelayed()) {
                layers(p).stream()
                        .map(layer -> jump(p, layer, before, after))
                        .reduce(ProductReading::worst)
                        .ifPresent(readings::add);
            }
        }
        return readings;
    }

    private static ProductReading jump(
            GuardedProduct p, Fp8Layer layer, Map<String, Float> before, Map<String, Float> after) {
        double jump = 0;
        for (ProductOperand o : ProductOperand.of(p.product())) {
            String slot = layer.slot(o.tensor());
            Float was = before.get(slot);
            Float is = after.get(slot);
            if (was != null && is != null && isDelayed(layer, p.product(), o.tensor())) {
                jump = Math.max(jump, is / (double) was);
            }
        }
        String module = layer.module();
        return new ProductReading(
                p,
                Level.CONFIGURED,
                Map.of(Trigger.AMAX_JUMP, jump),
                module.equals(p.layer()) ? Map.of() : Map.of(Trigger.AMAX_JUMP, module));
    }

    /** The slots of delayed scales that some product keeps up to date. */
    private Set<String> live() {
        Map<GuardedProduct, Level> demoted = guard.demoted();
        Set<String> demotedIds = new TreeSet<>();
        demoted.keySet().forEach(p -> demotedIds.add(p.id()));
        Set<String> live = new TreeSet<>();
        layers.forEach((node, own) -> {
            for (ProductOperand o : ProductOperand.ALL) {
                GuardedProduct p = new GuardedProduct(node, "", o.product(), "");
                for (Fp8Layer layer : demotedIds.contains(p.id()) ? List.<Fp8Layer>of() : own) {
                    if (isDelayed(layer, o.product(), o.tensor())) {
                        live.add(layer.slot(o.tensor()));
                    }
                }
            }
        });
        return live;
    }

    private Map<String, Float> seeds(Promoted promoted, Set<String> live, Map<String, Float> amaxes) {
        Map<String, Float> seeds = new TreeMap<>();
        if (promoted.to() == Level.CONFIGURED) {
            delayedOperands(promoted.product()).forEach((slot, _) -> {
                Float amax = amaxes.get(slot);
                if (!live.contains(slot) && amax != null && amax > 0 && Float.isFinite(amax)) {
                    seeds.put(slot, amax);
                }
            });
        }
        return seeds;
    }

    private Map<String, OperandSpec> delayedOperands(GuardedProduct product) {
        Map<String, OperandSpec> operands = new TreeMap<>();
        for (Fp8Layer layer : layers(product)) {
            for (ProductOperand o : ProductOperand.of(product.product())) {
                OperandSpec spec = layer.operand(o.product(), o.tensor());
                if (spec != null && spec.scaling() instanceof Scaling.Delayed) {
                    operands.put(layer.slot(o.tensor()), spec);
                }
            }
        }
        return operands;
    }

    private void seed(GuardDecision decision, Set<String> live) {
        if (decision instanceof Promoted p) {
            delayedOperands(p.product()).forEach((slot, spec) -> {
                Float amax = p.seeds().get(slot);
                if (amax != null && !live.contains(slot)) {
                    trainer.session().seedScale(slot, spec, amax);
                }
            });
        }
    }

    /** The amaxes that a product needs to be judged for a promotion to delayed scaling. */
    private Map<String, Float> kept(Map<String, Float> measured) {
        Map<String, Float> kept = new TreeMap<>();
        for (GuardedProduct p : guard.products()) {
            if (p.isDelayed() && guard.above(p).equals(Optional.of(Level.CONFIGURED))) {
                delayedOperands(p).keySet().forEach(slot -> {
                    Float amax = measured.get(slot);
                    if (amax != null) {
                        kept.put(slot, amax);
                    }
                });
            }
        }
        return kept;
    }

    /** Goes back; see {@link Guard#rollBack}. The trainer goes on by what is decided. */
    List<GuardDecision> rollBack(GuardDecision.Spike spike, long snapshot, Map<String, String> then) {
        List<GuardDecision> decisions = guard.rollBack(spike, snapshot, then);
        apply();
        return decisions;
    }

    /** A decision for hooks. */
    GuardReport report(GuardDecision decision) {
        Map<GuardedProduct, Level> demoted = guard.demoted();
        int high = (int)
                demoted.values().stream().filter(l -> l == Level.HIGH_PRECISION).count();
        return new GuardReport(decision, demoted.size(), high, guard.products().size());
    }
}
