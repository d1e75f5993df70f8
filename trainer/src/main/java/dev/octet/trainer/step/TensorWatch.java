package dev.octet.trainer.step;

import static java.util.Objects.requireNonNull;

import dev.octet.quant.recipe.Product;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.StepObserver;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.observe.DebugPlan;
import dev.octet.trainer.observe.Feature;
import dev.octet.trainer.observe.LiveCast;
import dev.octet.trainer.observe.ObservedTensor;
import dev.octet.trainer.observe.Sample;
import dev.octet.trainer.observe.TensorBuffer;
import dev.octet.trainer.observe.TensorDumps;
import dev.octet.trainer.observe.TensorReport;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Reads tensors of Linears while the programs of a step run, for the features of a debug configuration. Only reads: the step's numbers are
 * those of a step without it.
 *
 * <p>Tensors are as the Linear has them: the activation and the gradient in their type, before they are quantised; the weight as F32 where it is
 * quantised and in the narrow type where it is not; results as the product made them. Gradients carry the loss scale, divided by the number of
 * micro-batches, as they do in backward.
 *
 * <p>On ranks the statistics are those of the micro-batches of all, and of the layers of all stages. Of a layer that ranks share each looks at its part; what all of them have
 * alike counts once, and what they have summands of is added up first.
 */
public final class TensorWatch {
    private final Map<String, EnumMap<ObservedTensor, TensorBuffer>> buffers = new LinkedHashMap<>();
    private final Map<String, DebugPlan.Layer> layers = new HashMap<>();
    private final IdentityHashMap<Program, Map<Value, Float>> quantScales = new IdentityHashMap<>();
    private final IdentityHashMap<Program, Map<Value, Integer>> contributions = new IdentityHashMap<>();
    private final long iteration;
    private final TensorDumps dumps;
    private final SharedLayers shared;
    private final FreshGradient fresh;

    /**
     * A watch for one step.
     *
     * @param iteration of the step, as gates count
     * @param parity whether numbers are as Transformer Engine's code finds them where that is odd
     * @param dumps writes tensors that features ask to be written
     * @param shared the layers that ranks share
     * @param device that runs the step
     */
    public TensorWatch(
            DebugPlan plan, long iteration, boolean parity, TensorDumps dumps, SharedLayers shared, Device device) {
        this.fresh = new FreshGradient(device);
        this.iteration = iteration;
        this.dumps = dumps;
        this.shared = shared;
        Map<List<Object>, TensorBuffer> ofModules = new HashMap<>();
        for (DebugPlan.Layer layer : plan.layers().values()) {
            EnumMap<ObservedTensor, List<Feature.Reading>> wanted = new EnumMap<>(ObservedTensor.class);
            for (Feature.Reading f : layer.readings(iteration)) {
                wanted.computeIfAbsent(f.tensor(), _ -> new ArrayList<>()).add(f);
            }
            if (!wanted.isEmpty()) {
                EnumMap<ObservedTensor, TensorBuffer> own = new EnumMap<>(ObservedTensor.class);
                // a module that the graph uses twice is one layer
                wanted.forEach((tensor, features) -> own.put(
                        tensor,
                        ofModules.computeIfAbsent(
                                List.of(layer.module().name(), tensor),
                                _ -> new TensorBuffer(layer, tensor, features, parity))));
                buffers.put(layer.module().node(), own);
                layers.put(layer.module().node(), layer);
            }
        }
    }

    /** Whether anything is read in this step; otherwise the step runs as it would without a watch. */
    public boolean isNeeded() {
        return !buffers.isEmpty();
    }

    /**
     * The observer of a micro-batch, and of the preparation before it.
     *
     * @param experts ids of the Linears of experts, by the node that computes them as one
     */
    StepObserver observer(ObservedPass pass, Map<String, List<String>> experts) {
        return (step, nanos, running) -> {
            if (step.op() instanceof QuantizeFp8Delayed) {
                remember(step, running);
                return;
            }
            String node = shared.linear(step.node());
            if (!node.equals(step.node()) && step.phase() == Phase.FORWARD) {
                Map<ObservedTensor, TensorBuffer> wanted = buffers.get(node);
                if (wanted != null) {
                    takeResult(pass, step, node, running, wanted);
                }
                return;
            }
            List<String> nodes = experts.getOrDefault(step.node(), List.of(step.node()));
            if (nodes.stream().noneMatch(buffers::containsKey)) {
                return;
            }
            try (Arena arena = Arena.ofConfined()) {
                for (LinearStep linear : LinearStep.of(step, experts, running, arena)) {
                    Map<ObservedTensor, TensorBuffer> wanted = buffers.get(linear.node());
                    if (wanted != null) {
                        new Look(pass, step, running, requireNonNull(layers.get(linear.node())), wanted, arena)
                                .take(linear);
                    }
                }
            }
        };
    }

    /** Of a Linear whose results ranks add up another step has it. */
    private void takeResult(
            ObservedPass pass, Step step, String node, Executable running, Map<ObservedTensor, TensorBuffer> wanted) {
        if (!wanted.containsKey(ObservedTensor.OUTPUT)) {
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            CpuTensor y = Readings.of(requireNonNull(step.outputs().getFirst()), running, arena);
            new Look(pass, step, running, requireNonNull(layers.get(node)), wanted, arena)
                    .take(ObservedTensor.OUTPUT, y, LiveCast.NONE);
        }
    }

    /** The multiplier of a delayed cast, before the step's update of it. */
    private void remember(Step step, Executable running) {
        try (Arena arena = Arena.ofConfined()) {
            float quantScale = Readings.number(requireNonNull(step.inputs().get(1)), running, arena);
            quantScales
                    .computeIfAbsent(running.program(), _ -> new HashMap<>())
                    .put(requireNonNull(step.outputs().getFirst()), quantScale);
        }
    }

    /** Goes on with what all ranks have found, as if this process had computed all micro-batches. */
    void share(Collectives world) {
        List<TensorBuffer> all = buffers.values().stream()
                .flatMap(own -> own.values().stream())
                .distinct()
                .toList();
        RankReports.exchange(
                world,
                out -> {
                    for (TensorBuffer buffer : all) {
                        buffer.drain(out);
                    }
                },
                in -> {
                    for (TensorBuffer buffer : all) {
                        buffer.read(in);
                    }
                });
    }

    /** What was found in the step, in the order of the model's layers. */
    public List<TensorReport> reports() {
        return buffers.values().stream()
                .flatMap(own -> own.values().stream())
                .distinct()
                .map(TensorBuffer::report)
                .flatMap(Optional::stream)
                .toList();
    }

    /** One Linear of a step. */
    private final class Look {
        private final ObservedPass pass;
        private final Step step;
        private final Executable running;
        private final DebugPlan.Layer layer;
        private final Map<ObservedTensor, TensorBuffer> wanted;
        private final Arena arena;

        Look(
                ObservedPass pass,
                Step step,
                Executable running,
                DebugPlan.Layer layer,
                Map<ObservedTensor, TensorBuffer> wanted,
                Arena arena) {
            this.pass = pass;
            this.step = step;
            this.running = running;
            this.layer = layer;
            this.wanted = wanted;
            this.arena = arena;
        }

        void take(LinearStep linear) {
            if (!step.backward()) {
                take(ObservedTensor.ACTIVATION, linear);
                if (pass.begins()) {
                    take(ObservedTensor.WEIGHT, linear);
                }
                Value result = requireNonNull(step.outputs().getFirst());
                if (!shared.isSummed(step.node(), result.type().count())) {
                    take(ObservedTensor.OUTPUT, linear);
                }
                return;
            }
            if (linear.dy() != null) {
                take(ObservedTensor.GRADIENT, linear);
            }
            if (linear.computes(Product.DGRAD)) {
                take(ObservedTensor.DGRAD, linear);
            }
            if (linear.computes(Product.WGRAD)) {
                take(ObservedTensor.WGRAD, linear);
            }
        }

        private void take(ObservedTensor tensor, LinearStep linear) {
            if (!wanted.containsKey(tensor)) {
                return;
            }
            CpuTensor read = switch (tensor) {
                case ACTIVATION -> linear.x();
                case WEIGHT -> linear.w();
                case OUTPUT -> linear.y();
                case GRADIENT -> requireNonNull(linear.dy());
                case DGRAD -> gradient(linear, Product.DGRAD);
                case WGRAD -> gradient(linear, Product.WGRAD);
            };
            take(tensor, read, live(linear, tensor));
        }

        void take(ObservedTensor tensor, CpuTensor read, LiveCast live) {
            TensorBuffer buffer = requireNonNull(wanted.get(tensor));
            boolean isWeight = tensor == ObservedTensor.WEIGHT || tensor == ObservedTensor.WGRAD;
            Sample sample = isWeight ? Sample.ofWeight(read, layer.module().transB()) : Sample.of(read);
            boolean counts = shared.complete(layer.module().node(), tensor, read);
            // of weights, which all ranks have alike, the step's first micro-batch counts
            if (counts && (tensor != ObservedTensor.WEIGHT || pass.microBatch() == 0)) {
                buffer.feed(sample, live, turn());
            }
            for (Feature.DumpTensors dump : buffer.dumps()) {
                try {
                    dumps.write(iteration, layer.module().name(), dump, sample, live);
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            }
        }

        /** In forward a micro-batch goes through the parts of the model in their order, in backward the other way round. */
        private long turn() {
            int place = step.backward() ? Integer.MAX_VALUE - pass.part() : pass.part();
            return ((long) pass.microBatch() << Integer.SIZE) + place;
        }

        /** A gradient of this step alone: where it was added to others, it is computed again. */
        private CpuTensor gradient(LinearStep linear, Product product) {
            int input = linear.differentiated(product);
            Value value = requireNonNull(step.gradients().get(input));
            boolean alone = !step.accumulated().contains(input)
                    || (value.role() == ValueRole.GRADIENT && pass.begins() && contributions(value) == 1);
            CpuTensor whole = alone ? Readings.of(value, running, arena) : fresh.of(step, input, running, arena);
            return linear.own(product, whole);
        }

        /** How many steps of a micro-batch add to a value. */
        private int contributions(Value value) {
            return contributions
                    .computeIfAbsent(running.program(), TensorWatch::count)
                    .getOrDefault(value, 0);
        }

        private LiveCast live(LinearStep linear, ObservedTensor tensor) {
            Fp8Linear op = linear.fp8();
            if (op == null) {
                return LiveCast.NONE;
            }
            return switch (tensor) {
                case ACTIVATION ->
                    new LiveCast(
                            op.fprop().left(),
                            op.wgrad().right(),
                            linear.isOfExpert()
                                    ? linear.rowsQuantScale()
                                    : remembered(linear, Fp8Linear.X_CODES, Fp8Linear.X_CODES_WGRAD));
                case WEIGHT ->
                    new LiveCast(
                            op.fprop().right(),
                            op.dgrad().right(),
                            remembered(linear, Fp8Linear.W_CODES, Fp8Linear.W_CODES_DGRAD));
                case GRADIENT -> {
                    Value quantScale = linear.input(Fp8Linear.DY_QUANT_SCALE);
                    yield new LiveCast(
                            op.dgrad().left(),
                            op.wgrad().left(),
                            quantScale == null ? Float.NaN : linear.number(quantScale));
                }
                case OUTPUT, DGRAD, WGRAD -> LiveCast.NONE;
            };
        }

        private float remembered(LinearStep linear, int codes, int others) {
            Map<Value, Float> known = quantScales.getOrDefault(running.program(), Map.of());
            for (int i : new int[] {codes, others}) {
                Value made = linear.input(i);
                Float quantScale = made == null ? null : known.get(made);
                if (quantScale != null) {
                    return quantScale;
                }
            }
            return Float.NaN;
        }
    }

    private static Map<Value, Integer> count(Program program) {
        Map<Value, Integer> count = new HashMap<>();
        for (Step s : program.steps()) {
            if (s.backward()) {
                s.gradients().stream()
                        .filter(v -> v != null)
                        .forEach(v -> count.merge(requireNonNull(v), 1, Integer::sum));
            } else {
                s.outputs().stream()
                        .filter(v -> v != null && v.role() == ValueRole.GRADIENT)
                        .forEach(v -> count.merge(requireNonNull(v), 1, Integer::sum));
            }
        }
        return count;
    }
}
