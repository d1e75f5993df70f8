package dev.octet.trainer.observe;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Graph;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.quant.recipe.TrainingRecipe;
import dev.octet.quant.scale.TransformerEngineMxScale;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.KeptLinear;
import dev.octet.trainer.precision.LinearModule;
import dev.octet.trainer.precision.MsampPolicy;
import dev.octet.trainer.precision.OperandChange;
import dev.octet.trainer.precision.PrecisionPolicy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The policy that a debug configuration makes of a run's.
 *
 * @param policy the run's own where nothing is changed
 * @param settings every change by node and operand or product, as settings of the run: they change its numbers
 * @param notes for the user, on features without effect
 */
public record DebugChanges(PrecisionPolicy policy, Map<String, String> settings, List<String> notes) {
    private static final String PREFIX = "debug_changes.";

    /**
     * Applies the features that change how products are computed.
     *
     * @param graph the model's, canonical
     * @throws InvalidOptionException when a feature contradicts another, has nothing to work on, or asks for statistics of a cast that
     *     no layer makes
     */
    public static DebugChanges of(DebugPlan plan, PrecisionPolicy policy, Graph graph) {
        boolean changes =
                plan.layers().values().stream().anyMatch(l -> !l.changes().isEmpty());
        DebugChanges made =
                changes ? new Writer(plan, policy, graph).changes() : new DebugChanges(policy, Map.of(), List.of());
        requireCasts(plan, made.policy(), graph);
        return made;
    }

    /** Rejects statistics of casts that no layer makes, before a run begins. */
    private static void requireCasts(DebugPlan plan, PrecisionPolicy policy, Graph graph) {
        if (plan.layers().isEmpty()) {
            return;
        }
        Map<String, Fp8Layer> layers =
                policy.fp8(graph).layers().stream().collect(Collectors.toMap(Fp8Layer::node, l -> l));
        for (DebugPlan.Layer layer : plan.layers().values()) {
            for (Feature feature : layer.section().features()) {
                if (feature instanceof Feature.LogFp8TensorStats f) {
                    LinearTensor operand = f.tensor().operand().orElseThrow();
                    f.stats().stream()
                            .filter(s -> s.isOfLayer()
                                    && !isCast(layers.get(layer.module().node()), operand, s))
                            .findFirst()
                            .ifPresent(s -> {
                                throw layer.hasNoCast(f.tensor(), s);
                            });
                }
            }
        }
    }

    private static boolean isCast(@Nullable Fp8Layer layer, LinearTensor operand, CastStatistic s) {
        if (layer == null) {
            return false;
        }
        for (Product product : Product.values()) {
            OperandSpec spec = product.reads(operand) ? layer.operand(product, operand) : null;
            boolean isDelayed = spec != null && spec.scaling() instanceof Scaling.Delayed;
            // which axis the product sums along
            boolean columnwise =
                    product == Product.WGRAD || (product == Product.DGRAD && operand == LinearTensor.WEIGHT);
            if (s.isOfDelayed() ? isDelayed : spec != null && columnwise == s.columnwise()) {
                return true;
            }
        }
        return false;
    }

    private static final class Writer {
        private final DebugPlan plan;
        private final PrecisionPolicy policy;
        private final Graph graph;
        private final Map<String, Map<ProductOperand, OperandChange>> operands = new TreeMap<>();
        private final Map<String, Map<Product, OperandSpec>> results = new TreeMap<>();
        private final List<String> notes = new ArrayList<>();

        Writer(DebugPlan plan, PrecisionPolicy policy, Graph graph) {
            this.plan = plan;
            this.policy = policy;
            this.graph = graph;
        }

        DebugChanges changes() {
            if (policy instanceof MsampPolicy) {
                throw cannotChange();
            }
            boolean fakes = plan.layers().values().stream()
                    .flatMap(l -> l.changes().stream())
                    .anyMatch(Feature.FakeQuant.class::isInstance);
            if (policy instanceof Fp8Policy fp8) {
                operands.putAll(copy(fp8.settings().changes()));
                Map<String, Fp8Layer> layers =
                        fp8.layers(graph).stream().collect(Collectors.toMap(Fp8Layer::node, l -> l));
                plan.layers().values().forEach(l -> add(l, layers.get(l.module().node())));
                return made(new Fp8Policy(
                        fp8.base(), fp8.settings().with(operands).withFakeResults(results), fp8.replaceable()));
            }
            plan.layers().values().forEach(l -> add(l, null));
            if (!fakes) {
                return new DebugChanges(policy, Map.of(), notes);
            }
            // everything else as before: no operand is quantised but those named
            Fp8Settings nothing =
                    Fp8Settings.of(TrainingRecipe.CurrentScaling.DEFAULT).faked();
            for (LinearModule m : LinearModule.of(graph)) {
                Map<ProductOperand, OperandChange> own = operands.computeIfAbsent(m.node(), _ -> new TreeMap<>());
                ProductOperand.ALL.forEach(o -> own.putIfAbsent(o, new OperandChange.Unquantised()));
            }
            return made(new Fp8Policy(base(), nothing.with(operands).withFakeResults(results)));
        }

        private InvalidOptionException cannotChange() {
            DebugPlan.Layer first = plan.layers().values().stream()
                    .filter(l -> !l.changes().isEmpty())
                    .findFirst()
                    .orElseThrow();
            return new InvalidOptionException(
                    "mode msamp has no other way to compute layer '"
                            + first.module().name() + "': its weights are there in few bits only",
                    first.section().where(),
                    "keep only features that read tensors, LogTensorStats, LogFp8TensorStats and DumpTensors");
        }

        private Autocast base() {
            if (policy instanceof Autocast autocast) {
                return autocast;
            }
            if (policy.equals(PrecisionPolicy.FP32)) {
                return Autocast.fp32();
            }
            throw new InvalidOptionException(
                    "FakeQuant does not work in mode " + policy.name(),
                    "precision.mode",
                    "choose mode: fp8, bf16, fp16 or fp32");
        }

        private static Map<String, Map<ProductOperand, OperandChange>> copy(
                Map<String, Map<ProductOperand, OperandChange>> changes) {
            Map<String, Map<ProductOperand, OperandChange>> copy = new HashMap<>();
            changes.forEach((node, c) -> copy.put(node, new TreeMap<>(c)));
            return copy;
        }

        private DebugChanges made(Fp8Policy changed) {
            Map<String, String> settings = new TreeMap<>();
            plan.layers().keySet().forEach(node -> {
                operands.getOrDefault(node, Map.of())
                        .forEach((o, change) -> settings.put(PREFIX + node + "." + o, change.toString()));
                results.getOrDefault(node, Map.of())
                        .forEach((p, spec) ->
                                settings.put(PREFIX + node + "." + result(p).label(), spec.toString()));
            });
            return new DebugChanges(changed, settings, notes);
        }

        private static ObservedTensor result(Product product) {
            return switch (product) {
                case FPROP -> ObservedTensor.OUTPUT;
                case DGRAD -> ObservedTensor.DGRAD;
                case WGRAD -> ObservedTensor.WGRAD;
            };
        }

        /** The changes of a layer; {@code fp8} is null when it is not in FP8. */
        private void add(DebugPlan.Layer layer, @Nullable Fp8Layer fp8) {
            for (Feature.Change change : layer.changes()) {
                switch (change) {
                    case Feature.DisableQuantization d -> {
                        if (fp8 == null) {
                            notes.add(layer.section().where() + ": layer '"
                                    + layer.module().name() + "' is not in FP8, so there is nothing to disable in it");
                        } else {
                            d.products().forEach(p -> unquantised(layer, p));
                        }
                    }
                    case Feature.PerTensorScaling s -> {
                        ProductOperand operand = new ProductOperand(s.product(), s.operand());
                        requireDelayed(layer, fp8, operand);
                        put(layer, operand, new OperandChange.Current());
                    }
                    case Feature.FakeQuant f -> fake(layer, fp8, f);
                }
            }
        }

        private static void requireDelayed(DebugPlan.Layer layer, @Nullable Fp8Layer fp8, ProductOperand operand) {
            OperandSpec spec = fp8 == null ? null : fp8.operand(operand.product(), operand.tensor());
            if (spec == null || !(spec.scaling() instanceof Scaling.Delayed)) {
                throw new InvalidOptionException(
                        "PerTensorScaling replaces delayed scales, and " + operand + " of layer '"
                                + layer.module().name() + "' has none",
                        layer.section().where(),
                        "leave the feature out, or choose precision: {mode: fp8, recipe: delayed}");
            }
        }

        private void unquantised(DebugPlan.Layer layer, Product product) {
            ProductOperand.of(product).forEach(o -> put(layer, o, new OperandChange.Unquantised()));
        }

        /** An operand that is only not quantised may still become a fake one, and the other way round. */
        private void put(DebugPlan.Layer layer, ProductOperand operand, OperandChange change) {
            Map<ProductOperand, OperandChange> own =
                    operands.computeIfAbsent(layer.module().node(), _ -> new TreeMap<>());
            OperandChange before = own.get(operand);
            boolean replaces = before == null
                    || before.equals(change)
                    || (before instanceof OperandChange.Unquantised && change instanceof OperandChange.Fake);
            boolean stays = before instanceof OperandChange.Fake && change instanceof OperandChange.Unquantised;
            if (!replaces && !stays) {
                throw new InvalidOptionException(
                        "two features change " + operand + " of layer '"
                                + layer.module().name() + "'",
                        layer.section().where(),
                        "keep one of them");
            }
            if (!stays) {
                own.put(operand, change);
            }
        }

        private void fake(DebugPlan.Layer layer, @Nullable Fp8Layer fp8, Feature.FakeQuant f) {
            if (fp8 == null && policy instanceof Fp8Policy) {
                throw new InvalidOptionException(
                        "layer '" + layer.module().name() + "' is not in FP8: " + reason(layer),
                        layer.section().where(),
                        "leave it out of the section, or of what keeps it in high precision");
            }
            unquantised(layer, f.product());
            OperandSpec spec = spec(f.format());
            if (f.tensor().operand().isPresent()) {
                LinearTensor operand = f.tensor().operand().get();
                put(layer, new ProductOperand(f.product(), operand), new OperandChange.Fake(spec));
            } else {
                results.computeIfAbsent(layer.module().node(), _ -> new TreeMap<>())
                        .put(f.product(), spec);
            }
        }

        private String reason(DebugPlan.Layer layer) {
            return policy.fp8(graph).kept().stream()
                    .filter(k -> k.node().equals(layer.module().node()))
                    .map(KeptLinear::reason)
                    .findFirst()
                    .orElse("it has no quantised operand");
        }

        /** As Transformer Engine's fake_quantize: an amax of 0 or infinity gives the scale 1; blocks lie along the last axis, whatever the product. */
        private static OperandSpec spec(Feature.Format format) {
            QuantType type = QuantType.of(format.codes()).orElseThrow();
            return format.hasBlocks()
                    ? new OperandSpec(
                            type,
                            new Granularity.Mx(TrainingRecipe.Mxfp8.SIZE),
                            new Scaling.Current(new TransformerEngineMxScale()))
                    : new OperandSpec(
                            type,
                            new Granularity.PerTensor(),
                            new Scaling.Current(new TransformerEngineScale(0, false, false)));
        }
    }
}
