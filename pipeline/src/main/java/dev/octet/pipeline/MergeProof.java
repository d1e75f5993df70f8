package dev.octet.pipeline;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.data.Batch;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.merge.AdapterDeltas.Direction;
import dev.octet.converter.merge.AdapterDeltas.Weighted;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.peft.AdaptedModule;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.peft.PeftType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.quant.cast.Floats;
import dev.octet.trainer.adapter.AdaptedGraph;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.adapter.InitialValues;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.autodiff.StoredWeights;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.ForwardSession;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.io.Serial;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;

/**
 * The outputs of a base with its adapters next to it, compared with those of the merged model. The adapters are nodes of the graph: nothing
 * passes through the merged weights. Both compute in F32 with the weights that a reader of the files sees; how readers round activations is the
 * same before and after, and left out.
 */
public final class MergeProof {
    private static final double F32_GATE = 1e-4;
    private static final double NARROW_GATE = 0.03;
    private static final double BYTE_GATE = 0.15;
    private static final double FOUR_BIT_GATE = 0.5;
    private static final int RANDOM_LENGTH = 16;
    private static final int RANDOM_VOCABULARY = 32;
    private static final long SEED = 19;

    private final Merge.Request request;
    private final List<Weighted> adapters;
    private final Job job;

    MergeProof(Merge.Request request, List<Weighted> adapters, Job job) {
        this.request = request;
        this.adapters = adapters;
        this.job = job;
    }

    /** The adapters cannot be computed apart. */
    static final class NoReference extends RuntimeException {
        @Serial
        private static final long serialVersionUID = 1L;

        NoReference(String why) {
            super(why);
        }
    }

    /**
     * One output.
     *
     * @param maxAbs largest difference
     * @param relative norm of the difference over that of the output with the adapters apart
     * @param kl mean over positions of the Kullback-Leibler divergence of the merged model's softmax, in nats
     * @param topOne share of positions with the same largest element
     * @param kept share of the adapters' effect on the output that the merged model has:
     *     &lt;merged - base, apart - base&gt; / ||apart - base||^2
     */
    public record Gap(String output, double maxAbs, double relative, double kl, double topOne, double kept) {}

    /**
     * What came of it.
     *
     * @param data name of the samples
     * @param worst largest relative difference of any output
     */
    public record Result(String data, int samples, List<Gap> gaps, double worst, double gate, boolean passed) {}

    /**
     * Runs both.
     *
     * @param made where the output lies until it is proved
     */
    Result of(Path made, Merge.Proof options) throws IOException {
        boolean merges = request.direction() == Direction.MERGE;
        Path plain = merges ? request.base() : made;
        Path merged = merges ? made : request.base();
        try (OpenedModel base = OpenedModel.asStored(plain);
                OpenedModel candidate = OpenedModel.asStored(merged);
                Device device = DeviceName.CPU.open(job.threads())) {
            GraphSource before = tied(base);
            List<String> outputs = base.canonical().graph().outputs().stream()
                    .map(ValueInfo::name)
                    .toList();
            Map<String, Sums> sums = new LinkedHashMap<>();
            List<Map<String, Tensor>> batches = new ArrayList<>();
            String data = samples(base, plain, options, batches);
            try (ForwardSession apart = session(before.withAdapter(adapted(before.graph())), outputs, device);
                    ForwardSession without = session(before, outputs, device);
                    ForwardSession together = session(tied(candidate), outputs, device)) {
                int done = 0;
                for (Map<String, Tensor> batch : batches) {
                    try (Arena arena = Arena.ofShared()) {
                        Map<String, Tensor> a = apart.outputs(batch, arena);
                        Map<String, Tensor> b = without.outputs(batch, arena);
                        Map<String, Tensor> m = together.outputs(batch, arena);
                        a.forEach((name, tensor) -> sums.computeIfAbsent(name, _ -> new Sums())
                                .add(
                                        tensor.toFloats(),
                                        Objects.requireNonNull(b.get(name)).toFloats(),
                                        Objects.requireNonNull(m.get(name)).toFloats(),
                                        last(tensor)));
                    }
                    job.listener().progress("proving", ++done, batches.size(), "samples");
                }
            }
            List<Gap> gaps = sums.entrySet().stream()
                    .map(e -> e.getValue().gap(e.getKey()))
                    .toList();
            double worst = gaps.stream().mapToDouble(Gap::relative).max().orElse(Double.NaN);
            double gate = options.gate().orElseGet(() -> gate(made));
            return new Result(data, batches.size(), gaps, worst, gate, worst <= gate); // NaN passes no gate
        }
    }

    private static int last(Tensor tensor) {
        Shape shape = tensor.shape();
        return Math.toIntExact(shape.rank() == 0 ? 1 : shape.dim(-1));
    }

    private static GraphSource tied(OpenedModel model) {
        return model.source().withTies(Ties.find(model.canonical().graph()));
    }

    private static ForwardSession session(GraphSource graph, List<String> outputs, Device device) {
        Set<String> stored = StoredWeights.of(graph.graph().graph(), Set.of());
        Map<String, Tensor> weights = new LinkedHashMap<>(); // what is not stored is small: norms, biases, factors
        Parameters.of(graph.graph().graph())
                .without(stored)
                .all()
                .forEach(p -> weights.put(p.name(), Parameters.master(p, Arena.ofAuto())));
        return new ForwardSession(graph, outputs, PrecisionPolicy.FP32, weights, stored, Map.of(), device);
    }

    /** What right merges stay below, by the coarsest number format among the merged weights; docs/merge.md says why. */
    private double gate(Path made) {
        if (Job.isOnnx(made)) {
            return F32_GATE;
        }
        try (CheckpointConverter checkpoint = CheckpointConverter.open(made)) {
            int bits = checkpoint.stored().weights().values().stream()
                    .mapToInt(w -> w.codes().bits())
                    .min()
                    .orElse(32);
            boolean narrow = checkpoint.stored().plain().values().stream()
                    .anyMatch(t -> t.dtype() == DType.BF16 || t.dtype() == DType.F16);
            return bits <= 4 ? FOUR_BIT_GATE : bits <= 8 ? BYTE_GATE : narrow ? NARROW_GATE : F32_GATE;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private AdaptedGraph adapted(GraphModel graph) {
        boolean single = adapters.size() == 1 && adapters.getFirst().weight() == 1;
        try {
            return single ? whole(graph, adapters.getFirst().adapter()) : sum(graph);
        } catch (InvalidOptionException e) {
            throw new NoReference("the graph cannot have the adapter in it: " + e.what());
        }
    }

    private static AdaptedGraph whole(GraphModel graph, PeftAdapter adapter) {
        AdaptedGraph adapted = new AdapterSettings(adapter.config(), Optional.of(adapter.folder()), 0)
                .adapt(
                        graph,
                        InitialValues.continuing(
                                adapter.tensors(), adapter.folder().toString()));
        List<String> unused = adapter.tensors().keySet().stream()
                .filter(key -> !adapted.keys().containsValue(key))
                .toList();
        if (!unused.isEmpty()) { // a reference without them would deny a right merge
            throw new NoReference("the graph cannot have " + unused.size() + " of the adapter's tensors in it, as "
                    + unused.getFirst());
        }
        return adapted;
    }

    /** Several products as one: factors A on top of each other, factors B side by side, each with its scaling and weight. */
    private AdaptedGraph sum(GraphModel graph) {
        Map<String, List<Weighted>> byModule = new LinkedHashMap<>();
        for (Weighted source : adapters) {
            PeftConfig config = source.adapter().config();
            boolean products = config.type() == PeftType.LORA
                    && source.adapter().saved().isEmpty()
                    && source.adapter().modules().values().stream()
                            .allMatch(m -> m.tensors().size() == 2
                                    && m.tensor(PeftRole.LORA_A).isPresent()
                                    && m.tensor(PeftRole.LORA_B).isPresent());
            if (!products) {
                throw new NoReference("only products of Linears are computed apart with weights or several at a time");
            }
            source.adapter()
                    .modules()
                    .keySet()
                    .forEach(m ->
                            byModule.computeIfAbsent(m, _ -> new ArrayList<>()).add(source));
        }
        ObjectNode json = JsonNodeFactory.instance.objectNode();
        json.put("peft_type", "LORA");
        ArrayNode targets = json.putArray("target_modules");
        ObjectNode ranks = json.putObject("rank_pattern");
        ObjectNode alphas = json.putObject("alpha_pattern");
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        byModule.forEach((module, sources) -> {
            Tensor[] factors = factors(module, sources);
            long rank = factors[0].shape().dim(0);
            targets.add(module);
            ranks.put(module.replace(".", "\\."), rank);
            alphas.put(module.replace(".", "\\."), rank);
            tensors.put(PeftKeys.key(module, PeftRole.LORA_A), factors[0]);
            tensors.put(PeftKeys.key(module, PeftRole.LORA_B), factors[1]);
        });
        return new AdapterSettings(
                        PeftConfig.of(json), Optional.of(request.adapters().getFirst()), 0)
                .adapt(graph, InitialValues.continuing(tensors, "the adapters"));
    }

    private static Tensor[] factors(String module, List<Weighted> sources) {
        List<float[]> rowsOfA = new ArrayList<>();
        List<float[]> columnsOfB = new ArrayList<>();
        int in = 0;
        int out = 0;
        for (Weighted source : sources) {
            AdaptedModule found =
                    Objects.requireNonNull(source.adapter().modules().get(module));
            LoraConfig config = source.adapter().config().lora();
            Tensor a = found.tensor(PeftRole.LORA_A).orElseThrow();
            Tensor b = found.tensor(PeftRole.LORA_B).orElseThrow();
            in = Math.toIntExact(a.shape().dim(1));
            out = Math.toIntExact(b.shape().dim(0));
            int rank = Math.toIntExact(a.shape().dim(0));
            float factor = (float) (config.scaling(module) * source.weight());
            for (int k = 0; k < rank; k++) {
                float[] row = new float[in];
                for (int i = 0; i < in; i++) {
                    row[i] = Floats.get(a.dtype(), a.bytes(), (long) k * in + i);
                }
                rowsOfA.add(row);
                float[] column = new float[out];
                for (int o = 0; o < out; o++) {
                    column[o] = Floats.get(b.dtype(), b.bytes(), (long) o * rank + k) * factor;
                }
                columnsOfB.add(column);
            }
        }
        int rank = rowsOfA.size();
        float[] a = new float[rank * in];
        float[] b = new float[out * rank];
        for (int k = 0; k < rank; k++) {
            System.arraycopy(rowsOfA.get(k), 0, a, k * in, in);
            for (int o = 0; o < out; o++) {
                b[o * rank + k] = columnsOfB.get(k)[o];
            }
        }
        return new Tensor[] {
            Tensor.ofFloats(Arena.ofAuto(), PeftKeys.key(module, PeftRole.LORA_A), Shape.of(rank, in), a),
            Tensor.ofFloats(Arena.ofAuto(), PeftKeys.key(module, PeftRole.LORA_B), Shape.of(out, rank), b)
        };
    }

    /** Fills {@code batches}; the name of the samples. */
    private String samples(OpenedModel model, Path path, Merge.Proof options, List<Map<String, Tensor>> batches)
            throws IOException {
        List<InputSpec> inputs = InputSpec.of(model.canonical());
        if (options.samples().isEmpty()) {
            long vocabulary = model.file()
                    .huggingFace()
                    .map(h -> h.config().path("vocab_size").asLong(RANDOM_VOCABULARY))
                    .orElse((long) RANDOM_VOCABULARY);
            SplittableRandom random = new SplittableRandom(SEED);
            for (int i = 0; i < options.count(); i++) {
                batches.add(random(inputs, vocabulary, random));
            }
            return "random inputs";
        }
        try (Dataset data = options.samples().get().open(path, inputs, job)) {
            for (int i = 0; i < Math.min(options.count(), data.count()); i++) {
                Batch batch = data.batch(i, 1);
                Map<String, Tensor> copies = new LinkedHashMap<>();
                batch.tensors().forEach((name, t) -> copies.put(name, copy(t)));
                batches.add(copies);
            }
            return data.name();
        }
    }

    private static Tensor copy(Tensor tensor) {
        Tensor copy = Tensor.allocate(Arena.ofAuto(), tensor.spec());
        copy.bytes().copyFrom(tensor.bytes());
        return copy;
    }

    /** Tokens below the size of the vocabulary, masks of ones, standard normal numbers. */
    private static Map<String, Tensor> random(List<InputSpec> inputs, long vocabulary, SplittableRandom random) {
        Map<String, Tensor> batch = new LinkedHashMap<>();
        for (InputSpec input : inputs) {
            var dims = input.dims();
            if (dims == null || input.dtype() == null) {
                throw new NoReference("input '" + input.name() + "' has no shape that random numbers could have");
            }
            long[] sizes = new long[dims.size()];
            for (int axis = 0; axis < sizes.length; axis++) {
                sizes[axis] = input.fixed(axis).orElse(axis == 0 ? 1 : RANDOM_LENGTH);
            }
            Shape shape = Shape.of(sizes);
            int count = Math.toIntExact(shape.elementCount());
            if (input.dtype().isFloat()) {
                float[] values = new float[count];
                for (int i = 0; i < count; i++) {
                    values[i] = (float) random.nextGaussian();
                }
                batch.put(input.name(), Tensor.ofFloats(Arena.ofAuto(), input.name(), shape, values));
            } else {
                String name = input.name().toLowerCase(Locale.ROOT);
                long[] values = new long[count];
                for (int i = 0; i < count; i++) {
                    values[i] = name.contains("mask")
                            ? 1
                            : name.contains("position")
                                    ? i % Math.max(1, sizes[sizes.length - 1])
                                    : name.contains("type") ? 0 : random.nextLong(vocabulary);
                }
                batch.put(input.name(), Tensor.ofLongs(Arena.ofAuto(), input.name(), shape, values));
            }
        }
        return batch;
    }

    /** Sums over the elements of one output. */
    private static final class Sums {
        private double maxAbs;
        private double squaresOff;
        private double squares;
        private double effect;
        private double along;
        private double kl;
        private long same;
        private long positions;

        void add(float[] apart, float[] without, float[] merged, int width) {
            for (int i = 0; i < apart.length; i++) {
                double off = (double) merged[i] - apart[i];
                double added = (double) apart[i] - without[i];
                maxAbs = Double.isNaN(off) ? Double.NaN : Math.max(maxAbs, Math.abs(off));
                squaresOff += off * off;
                squares += (double) apart[i] * apart[i];
                effect += added * added;
                along += ((double) merged[i] - without[i]) * added;
            }
            for (int from = 0; from + width <= apart.length; from += width) {
                kl += divergence(apart, merged, from, width);
                same += largest(apart, from, width) == largest(merged, from, width) ? 1 : 0;
                positions++;
            }
        }

        private static double divergence(float[] p, float[] q, int from, int width) {
            double logP = logSum(p, from, width);
            double logQ = logSum(q, from, width);
            double sum = 0;
            for (int i = from; i < from + width; i++) {
                sum += Math.exp(p[i] - logP) * (p[i] - logP - q[i] + logQ);
            }
            return sum;
        }

        private static double logSum(float[] logits, int from, int width) {
            double most = logits[largest(logits, from, width)];
            double sum = 0;
            for (int i = from; i < from + width; i++) {
                sum += Math.exp(logits[i] - most);
            }
            return most + Math.log(sum);
        }

        private static int largest(float[] values, int from, int width) {
            int best = from;
            for (int i = from + 1; i < from + width; i++) {
                best = values[i] > values[best] ? i : best;
            }
            return best;
        }

        Gap gap(String output) {
            return new Gap(
                    output,
                    maxAbs,
                    squares == 0 ? 0 : Math.sqrt(squaresOff / squares),
                    kl / Math.max(1, positions),
                    (double) same / Math.max(1, positions),
                    effect == 0 ? 1 : along / effect);
        }
    }
}
