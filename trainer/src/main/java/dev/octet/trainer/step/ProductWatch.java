package dev.octet.trainer.step;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.config.GuardConfig.Level;
import dev.octet.trainer.config.GuardConfig.Trigger;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.guard.GuardedProduct;
import dev.octet.trainer.guard.ProductReading;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.op.fp8.CastCounts;
import dev.octet.trainer.op.fp8.CastSample;
import dev.octet.trainer.op.fp8.CodedMatrix;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.OperandChange;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * Measures products of FP8 Linears while the programs of a step run: what the casts of their operands lose, and the error of the product for a
 * sample of its elements. Only reads. A product is measured at the level that it is computed at, and at the one above as it would be there.
 */
public final class ProductWatch {
    /**
     * A product to measure.
     *
     * @param layer as the run is configured
     * @param level the one it is computed at
     * @param above the one it would be promoted to; null for none
     */
    public record Watched(
            GuardedProduct product,
            Fp8Layer layer,
            Level level,
            @Nullable Level above) {
        private List<Level> levels() {
            return above == null ? List.of(level) : List.of(level, above);
        }
    }

    /**
     * What is known before the step.
     *
     * @param sample rows and columns of each product that its error is computed for
     * @param turn which ones: another number takes others
     * @param amaxes of operands at the last measurement, by slot: with delayed scaling, what the scale would come from
     * @param ages steps since a delayed scale last changed, by slot
     * @param drift ratio of room and amax from which a delayed scale does not fit
     */
    public record Known(int sample, long turn, Map<String, Float> amaxes, Map<String, Long> ages, double drift) {}

    private final Map<String, List<Watched>> byNode = new HashMap<>();
    private final Known known;
    /** In the order of {@link Found#number}. */
    private final List<Watched> watched;

    private final List<Found> found = new ArrayList<>();
    private final Map<String, Float> amaxes = new TreeMap<>();

    private record Key(GuardedProduct product, Level level) {}

    /** A product of one Linear: of experts, each has its own. */
    private record LayerKey(Key key, String module) {}

    private record OperandKey(LayerKey key, LinearTensor tensor) {}

    /** An operand that was cast, and whether its scale is delayed. */
    private record Measured(CastSample sample, CastCounts counts, String slot, boolean delayed) {
        /** Whether it has a delayed scale, and an amax to compare with it. */
        private boolean hasRoom() {
            return delayed && counts.amax() > 0;
        }

        /** The largest magnitude that the scale has room for. */
        private float room() {
            return counts.format().maxValue() * counts.scale();
        }
    }

    /**
     * A product of one micro-batch.
     *
     * @param number of the product among those that are watched
     * @param jump of the operands with delayed scales the largest amax over what the scale has room for
     * @param age the largest number of steps since such a scale that does not fit has changed
     */
    private record Found(
            int microBatch,
            int number,
            Level level,
            CastSample.CastError error,
            CastCounts left,
            CastCounts right,
            double jump,
            double age) {
        private Found and(Found later) {
            return new Found(
                    later.microBatch,
                    number,
                    level,
                    error.and(later.error),
                    left.and(later.left),
                    right.and(later.right),
                    Math.max(jump, later.jump),
                    Math.max(age, later.age));
        }
    }

    /** A watch of one step. */
    public ProductWatch(List<Watched> watched, Known known) {
        this.watched = List.copyOf(watched);
        watched.forEach(w ->
                byNode.computeIfAbsent(w.layer().node(), _ -> new ArrayList<>()).add(w));
        this.known = known;
    }

    /**
     * An observer of the programs that a micro-batch goes through.
     *
     * @param experts ids of the Linears of experts, by the node that computes them as one
     */
    StepObserver observer(ObservedPass pass, Map<String, List<String>> experts) {
        Look look = new Look(pass.microBatch());
        return (step, nanos, running) -> {
            List<String> nodes = experts.getOrDefault(step.node(), List.of(step.node()));
            if (nodes.stream().noneMatch(byNode::containsKey)) {
                return;
            }
            try (Arena arena = Arena.ofConfined()) {
                for (LinearStep linear : LinearStep.of(step, experts, running, arena)) {
                    List<Watched> of = byNode.get(linear.node());
                    if (of != null && step.backward()) {
                        look.backward(of, linear);
                    } else if (of != null && step.phase() == Phase.FORWARD) {
                        look.forward(of, linear);
                    }
                }
            }
        };
    }

    /**
     * Goes on with what all ranks have found, in the order of micro-batches, as if this process had computed them all: the stages of a pipeline have looked at other
     * products, ranks that share a layer at other parts of them.
     */
    void share(Collectives world) {
        Map<String, Float> ofAll = new TreeMap<>();
        List<Found> all = new ArrayList<>();
        RankReports.exchange(
                world,
                out -> {
                    out.writeInt(found.size());
                    for (Found f : found) {
                        write(f, out);
                    }
                    out.writeInt(amaxes.size());
                    for (Map.Entry<String, Float> amax : amaxes.entrySet()) {
                        out.writeUTF(amax.getKey());
                        out.writeFloat(amax.getValue());
                    }
                },
                in -> {
                    for (int left = in.readInt(); left > 0; left--) {
                        all.add(readFound(in));
                    }
                    for (int left = in.readInt(); left > 0; left--) {
                        ofAll.merge(in.readUTF(), in.readFloat(), Math::max);
                    }
                });
        all.sort(Comparator.comparingInt(Found::microBatch));
        found.clear();
        found.addAll(all);
        amaxes.clear();
        amaxes.putAll(ofAll);
    }

    private static void write(Found f, DataOutputStream out) throws IOException {
        out.writeInt(f.microBatch());
        out.writeInt(f.number());
        out.writeUTF(f.level().name());
        out.writeDouble(f.error().error());
        out.writeDouble(f.error().norm());
        for (CastCounts c : List.of(f.left(), f.right())) {
            out.writeUTF(c.format().name());
            out.writeLong(c.elements());
            out.writeLong(c.clipped());
            out.writeLong(c.underflowed());
            out.writeFloat(c.amax());
            out.writeFloat(c.scale());
        }
        out.writeDouble(f.jump());
        out.writeDouble(f.age());
    }

    private static Found readFound(DataInputStream in) throws IOException {
        return new Found(
                in.readInt(),
                in.readInt(),
                Level.valueOf(in.readUTF()),
                new CastSample.CastError(in.readDouble(), in.readDouble()),
                readCounts(in),
                readCounts(in),
                in.readDouble(),
                in.readDouble());
    }

    private static CastCounts readCounts(DataInputStream in) throws IOException {
        return new CastCounts(
                Float8Format.valueOf(in.readUTF()),
                in.readLong(),
                in.readLong(),
                in.readLong(),
                in.readFloat(),
                in.readFloat());
    }

    /** The readings of the step, in the order in which products were first seen; of experts that are computed as one, the worst of each trigger. */
    public List<ProductReading> readings() {
        Map<LayerKey, Found> sums = new LinkedHashMap<>();
        found.forEach(f -> {
            Watched w = watched.get(f.number());
            sums.merge(new LayerKey(new Key(w.product(), f.level()), w.layer().module()), f, Found::and);
        });
        Map<Key, ProductReading> readings = new LinkedHashMap<>();
        sums.forEach((key, sum) -> {
            GuardedProduct product = key.key().product();
            Map<Trigger, Double> values = values(sum);
            Map<Trigger, String> modules = new EnumMap<>(Trigger.class);
            if (!key.module().equals(product.layer())) {
                values.keySet().forEach(t -> modules.put(t, key.module()));
            }
            readings.merge(
                    key.key(), new ProductReading(product, key.key().level(), values, modules), ProductReading::worst);
        });
        return List.copyOf(readings.values());
    }

    private static Map<Trigger, Double> values(Found sum) {
        Map<Trigger, Double> values = new EnumMap<>(Trigger.class);
        double clipped = 0;
        double underflowed = 0;
        for (CastCounts c : List.of(sum.left(), sum.right())) {
            clipped = Math.max(clipped, (double) c.clipped() / Math.max(1, c.elements()));
            underflowed = Math.max(underflowed, (double) c.underflowed() / Math.max(1, c.elements()));
        }
        values.put(Trigger.CLIPPED, clipped);
        values.put(Trigger.UNDERFLOWED, underflowed);
        values.put(Trigger.CAST_ERROR, sum.error().relative());
        values.put(Trigger.AMAX_JUMP, sum.jump());
        values.put(Trigger.SCALE_AGE, sum.age());
        return values;
    }

    /** Amaxes of the operands that were looked at, by slot. */
    public Map<String, Float> amaxes() {
        return amaxes;
    }

    /**
     * The products that a program computes, by the node of their Linear: without the gradients that nothing wants.
     *
     * @param experts ids of the Linears of experts, by the node that computes them as one
     */
    public static Map<String, Set<Product>> products(Program program, Map<String, List<String>> experts) {
        Map<String, Set<Product>> products = new HashMap<>();
        for (Step step : program.steps()) {
            for (String node : experts.getOrDefault(step.node(), List.of(step.node()))) {
                if (LinearStep.isOne(step)) {
                    products.computeIfAbsent(node, _ -> EnumSet.noneOf(Product.class))
                            .addAll(LinearStep.products(step));
                }
            }
        }
        return products;
    }

    /** How an operand is quantised at a level; null when the product takes it as it is. */
    private static @Nullable OperandSpec spec(Fp8Layer layer, Product product, LinearTensor tensor, Level level) {
        OperandSpec spec = layer.operand(product, tensor);
        return switch (level) {
            case CONFIGURED -> spec;
            case CURRENT -> new OperandChange.Current().of(spec);
            case HIGH_PRECISION -> null;
        };
    }

    private static CodedMatrix matrix(OperandSpec spec, LinearTensor tensor, LinearStep.Form form) {
        Blocks blocks = switch (tensor) {
            case INPUT -> CodedMatrix.blocks(spec.granularity(), form.rows(), form.in());
            case GRAD_OUTPUT -> CodedMatrix.blocks(spec.granularity(), form.rows(), form.out());
            case WEIGHT -> {
                Blocks outIn = CodedMatrix.blocks(spec.granularity(), form.out(), form.in());
                yield form.transB() ? outIn : outIn.transposed();
            }
        };
        return new CodedMatrix(
                spec.format(), blocks, spec.scaling() instanceof Scaling.Current(QuantScaleRule rule) ? rule : null);
    }

    /** Whether the vectors that a product sums over are the rows of an operand as it lies in memory. */
    private static boolean alongRows(Product product, LinearTensor tensor, LinearStep.Form form) {
        boolean innermost = product.summedAxis(tensor) == -1;
        return tensor == LinearTensor.WEIGHT ? innermost == form.transB() : innermost;
    }

    /** The multiplier that the last measured amax would have left. */
    private @Nullable Float delayedScale(OperandSpec spec, String slot) {
        Float amax = known.amaxes().get(slot);
        return amax == null || !(spec.scaling() instanceof Scaling.Delayed(int margin, int _, var _)) || !(amax > 0)
                ? null
                : (Float) (AmaxHistory.scaledMax(spec.format(), margin) / amax);
    }

    /** One micro-batch. */
    private final class Look {
        private final int microBatch;

        /** Operands that wait for the gradient. */
        private final Map<OperandKey, Measured> waiting = new HashMap<>();

        Look(int microBatch) {
            this.microBatch = microBatch;
        }

        void forward(List<Watched> watched, LinearStep linear) {
            CpuTensor x = linear.x();
            CpuTensor w = linear.w();
            for (Watched each : watched) {
                each.levels().forEach(level -> {
                    LayerKey key = key(each, level);
                    measure(each, key, LinearTensor.INPUT, x, linear);
                    measure(each, key, LinearTensor.WEIGHT, w, linear);
                    if (each.product().product() == Product.FPROP) {
                        finish(each, key, Product.FPROP);
                    }
                });
            }
        }

        void backward(List<Watched> watched, LinearStep linear) {
            CpuTensor dy = linear.dy();
            if (dy == null) {
                return;
            }
            for (Watched each : watched) {
                Product product = each.product().product();
                if (linear.computes(product)) {
                    each.levels().forEach(level -> {
                        LayerKey key = key(each, level);
                        measure(each, key, LinearTensor.GRAD_OUTPUT, dy, linear);
                        finish(each, key, product);
                    });
                }
            }
        }

        private LayerKey key(Watched watched, Level level) {
            return new LayerKey(
                    new Key(watched.product(), level), watched.layer().module());
        }

        /** Casts an operand, if the product reads it and its scale is known. */
        private void measure(Watched watched, LayerKey key, LinearTensor tensor, CpuTensor x, LinearStep linear) {
            Level level = key.key().level();
            Product product = watched.product().product();
            OperandSpec spec = product.reads(tensor) ? spec(watched.layer(), product, tensor, level) : null;
            if (spec == null) {
                return;
            }
            CodedMatrix matrix = matrix(spec, tensor, linear.form());
            String slot = watched.layer().slot(tensor);
            float delayed = 0;
            if (matrix.isDelayed()) {
                boolean own = level == watched.level();
                Float quantScale = own ? linear.quantScale(product, tensor) : delayedScale(spec, slot);
                if (quantScale == null) {
                    return;
                }
                delayed = quantScale;
            }
            float[] quantScales = CastSample.quantScales(x, matrix, delayed);
            CastCounts counts = CastCounts.of(x, matrix, quantScales);
            CastSample.Pick pick =
                    new CastSample.Pick(alongRows(product, tensor, linear.form()), known.sample(), known.turn());
            waiting.put(
                    new OperandKey(key, tensor),
                    new Measured(CastSample.of(x, matrix, quantScales, pick), counts, slot, matrix.isDelayed()));
            amaxes.merge(slot, counts.amax(), Math::max);
        }

        private void finish(Watched of, LayerKey key, Product product) {
            Measured left = waiting.remove(new OperandKey(key, product.left()));
            Measured right = waiting.remove(new OperandKey(key, product.right()));
            if (left != null && right != null) {
                found.add(new Found(
                        microBatch,
                        watched.indexOf(of),
                        key.key().level(),
                        CastSample.productError(left.sample(), right.sample()),
                        left.counts(),
                        right.counts(),
                        Math.max(jump(left), jump(right)),
                        Math.max(age(left), age(right))));
            }
        }

        private double jump(Measured m) {
            return m.hasRoom() ? m.counts().amax() / m.room() : 0;
        }

        /** Steps since the scale last changed, if it does not fit. */
        private double age(Measured m) {
            float amax = m.counts().amax();
            boolean fits = !m.hasRoom() || (amax <= known.drift() * m.room() && m.room() <= known.drift() * amax);
            return fits ? 0 : known.ages().getOrDefault(m.slot(), 0L);
        }
    }
}
