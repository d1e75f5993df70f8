package dev.octet.converter.sensitivity;

import dev.octet.converter.data.Batch;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.TokenMask;
import dev.octet.converter.runtime.GraphSession;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.work.Workers;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;

/**
 * Measures each Linear in each format: the samples are read once and the model's own outputs computed once; then the model runs with one
 * Linear quantised, and with all but one, for every Linear. A format takes one load of the model ({@link SwitchedGraph}).
 *
 * <p>Weights are rounded to nearest; static scales of inputs are the largest magnitudes of the same samples. Weights, their rounded copies
 * and the reference's outputs lie outside the heap, in F32.
 */
public final class SensitivityRun implements AutoCloseable {
    /** Fewest samples that are measured: the spread of fewer says nothing. */
    public static final int MIN_SAMPLES = 4;

    /** Most bytes of the reference's outputs. */
    private static final long MAX_REFERENCE_BYTES = 4L << 30;

    /** Most bytes of the outputs of one batch on the heap. */
    private static final long MAX_BATCH_BYTES = 128L << 20;

    /** Differences of logits below this part of the largest are rounding. */
    private static final float SAME = 1e-4f;

    private final GraphModel canonical;
    private final List<LinearLayer> layers;
    private final Dataset data;
    private final SensitivityOptions options;
    private final Arena arena = Arena.ofShared();
    private final Map<String, Tensor> own = new LinkedHashMap<>();
    private final List<Batch> batches = new ArrayList<>();
    private final List<Map<String, Tensor>> reference = new ArrayList<>();
    private final Map<String, Float> inputAmax = new HashMap<>();
    private Optional<String> logits = Optional.empty();
    private boolean predicts;
    private double perplexity = Double.NaN;

    private SensitivityRun(GraphModel canonical, List<LinearLayer> layers, Dataset data, SensitivityOptions options) {
        this.canonical = canonical;
        this.layers = layers;
        this.data = data;
        this.options = options;
    }

    /**
     * Reads the samples and runs the model over them.
     *
     * @param canonical {@link dev.octet.converter.Converter#canonical()}
     * @param layers of it, at least one
     * @throws InvalidDataException when there are fewer than {@link #MIN_SAMPLES} samples, they do not fit the model, or the model's own
     *     outputs are not finite
     * @throws UnsupportedModelException when ONNX Runtime refuses the model
     * @throws IOException when the data cannot be read
     */
    public static SensitivityRun open(
            GraphModel canonical, List<LinearLayer> layers, Dataset data, SensitivityOptions options)
            throws IOException {
        if (data.count() < MIN_SAMPLES) {
            throw new InvalidDataException(
                    "too little data: " + data.count() + (data.count() == 1 ? " sample" : " samples")
                            + ", and losses of fewer than " + MIN_SAMPLES + " say nothing",
                    data.name(),
                    "give more samples, 16 to 64 of what the model will be used on");
        }
        SensitivityRun run = new SensitivityRun(canonical, layers, data, options);
        boolean done = false;
        try {
            run.readWeights();
            run.observe();
            done = true;
            return run;
        } finally {
            if (!done) {
                run.close();
            }
        }
    }

    /** F32 weights, [in, out], as the switched graphs take them. */
    private void readWeights() {
        for (LinearLayer layer : layers) {
            own.put(layer.weight(), LinearWeights.outIn(canonical.graph(), layer, options.threads(), arena));
        }
    }

    /** The tensor to feed for a weight in [out, in] order. */
    private Tensor fed(Tensor outIn, DType type, Arena owner) {
        long rows = outIn.shape().dim(0);
        long cols = outIn.shape().dim(1);
        Tensor fed = Tensor.allocate(owner, new TensorSpec(outIn.name(), type, Shape.of(cols, rows)));
        Workers.run(Math.toIntExact(cols), options.threads(), col -> {
            for (long row = 0; row < rows; row++) {
                float value = outIn.bytes().get(Tensor.F32_LE, (row * cols + col) * Float.BYTES);
                Floats.set(type, fed.bytes(), col * rows + row, value);
            }
        });
        return fed;
    }

    private void observe() throws IOException {
        SwitchedGraph graph = SwitchedGraph.observed(canonical, layers, arena);
        try (OnnxRuntimeSession session = open(graph);
                Arena weights = Arena.ofShared()) {
            Map<String, Tensor> feeds = feeds(graph, weights);
            Set<String> outputs = new LinkedHashSet<>(session.outputs());
            outputs.removeIf(o -> o.startsWith(SwitchedGraph.AMAX));
            int size = batchSize();
            boolean fixed = InputSpec.fixedBatch(InputSpec.of(canonical)).isPresent();
            long bytes = 0;
            for (int first = 0; first < data.count(); first += batches.getLast().size()) {
                int wanted = first == 0 && !fixed ? 1 : size;
                Batch batch = data.batch(first, Math.min(wanted, data.count() - first));
                batches.add(batch);
                long before = bytes;
                try (OnnxRuntimeSession.Outputs found = session.run(with(batch, feeds), session.outputs())) {
                    bytes += keep(batch, found, outputs);
                    observeInputs(batch, found);
                }
                if (bytes > MAX_REFERENCE_BYTES) {
                    throw new InvalidDataException(
                            "the outputs of the first " + (first + batch.size()) + " samples alone take "
                                    + (bytes >> 20) + " MiB",
                            data.name(),
                            "give fewer samples with --samples, or shorter ones with --max-length");
                }
                if (first == 0) {
                    predicts = predictsNext(session, feeds);
                }
                if (first == 0 && !fixed) {
                    size = Math.clamp(MAX_BATCH_BYTES / Math.max(1, bytes - before), 1, size);
                }
            }
        }
        LossSums itself = new LossSums(logits.orElse(null), predicts, options.threads());
        for (int i = 0; i < batches.size(); i++) {
            itself.add(batches.get(i), reference.get(i), reference.get(i));
        }
        perplexity = itself.perplexity();
    }

    /**
     * Whether the logits of a token are of the token that comes next: then those of all earlier tokens stay when the last one is another,
     * as in causal language models and not in those that see the whole text.
     */
    private boolean predictsNext(OnnxRuntimeSession session, Map<String, Tensor> feeds) {
        Batch batch = batches.getFirst();
        Tensor ids = batch.tensors().get(LossSums.IDS);
        Tensor before = logits.flatMap(
                        l -> Optional.ofNullable(reference.getFirst().get(l)))
                .orElse(null);
        if (ids == null || before == null || !LossSums.isTokenwise(before.shape(), ids.shape())) {
            return false;
        }
        int length = Math.toIntExact(ids.shape().dim(1));
        int last = batch.mask().map(m -> m.kept().previousSetBit(length - 1)).orElse(length - 1);
        if (last < 1) {
            return false;
        }
        try (Arena scratch = Arena.ofShared()) {
            Tensor changed = Tensor.allocate(scratch, ids.spec());
            MemorySegment.copy(ids.bytes(), 0, changed.bytes(), 0, ids.bytes().byteSize());
            if (ids.dtype() == DType.I32) {
                int id = ids.bytes().get(Tensor.I32_LE, last * (long) Integer.BYTES);
                changed.bytes().set(Tensor.I32_LE, last * (long) Integer.BYTES, id == 0 ? 1 : 0);
            } else {
                long id = ids.bytes().get(Tensor.I64_LE, last * (long) Long.BYTES);
                changed.bytes().set(Tensor.I64_LE, last * (long) Long.BYTES, id == 0 ? 1 : 0);
            }
            Map<String, Tensor> all = new LinkedHashMap<>(feeds);
            all.put(LossSums.IDS, changed);
            try (OnnxRuntimeSession.Outputs found = session.run(with(batch, all), Set.of(before.name()))) {
                Tensor after = found.read(before.name());
                float most = 0;
                float difference = 0;
                for (long i = 0; i < last * before.shape().dim(2); i++) {
                    float a = before.bytes().get(Tensor.F32_LE, i * Float.BYTES);
                    most = Math.max(most, Math.abs(a));
                    difference = Math.max(difference, Math.abs(a - after.bytes().get(Tensor.F32_LE, i * Float.BYTES)));
                }
                return difference <= SAME * most;
            }
        }
    }

    private int batchSize() {
        return Math.toIntExact(InputSpec.fixedBatch(InputSpec.of(canonical))
                .orElse(Math.min(options.batchSize(), data.largestBatch())));
    }

    /** Keeps the outputs of the model itself, outside the heap. */
    private long keep(Batch batch, OnnxRuntimeSession.Outputs found, Set<String> outputs) {
        Map<String, Tensor> kept = new LinkedHashMap<>();
        long bytes = 0;
        for (String name : outputs) {
            if (!found.names().contains(name)) {
                continue; // not numeric
            }
            Tensor value = found.read(name);
            Tensor copy = Tensor.allocate(arena, value.spec());
            MemorySegment.copy(value.bytes(), 0, copy.bytes(), 0, copy.bytes().byteSize());
            kept.put(name, copy);
            bytes += copy.bytes().byteSize();
            requireFinite(copy, batch);
            if (logits.isEmpty() && isLogits(copy)) {
                logits = Optional.of(name);
            }
        }
        if (kept.isEmpty()) {
            throw new UnsupportedModelException(
                    "the model has no numeric output to measure",
                    "outputs " + outputs,
                    "give a model whose outputs are tensors of numbers");
        }
        reference.add(kept);
        return bytes;
    }

    private void requireFinite(Tensor output, Batch batch) {
        for (long i = 0; i < output.shape().elementCount(); i++) {
            if (Float.isNaN(output.bytes().get(Tensor.F32_LE, i * Float.BYTES))) {
                throw new InvalidDataException(
                        "the model itself gives NaN, before anything is quantised",
                        "output '" + output.name() + "', samples " + batch.first() + " to "
                                + (batch.first() + batch.size() - 1) + " of " + data.name(),
                        "check with `octet evaluate MODEL MODEL` that model and data belong together");
            }
        }
    }

    private static boolean isLogits(Tensor output) {
        String name = output.name().toLowerCase(Locale.ROOT);
        return (name.contains("logit") || name.contains("score"))
                && output.shape().rank() >= 2
                && output.shape().dim(-1) > 1;
    }

    /** The largest magnitude of the real tokens of each input of a Linear. */
    private void observeInputs(Batch batch, OnnxRuntimeSession.Outputs found) {
        TokenMask mask = batch.mask().orElse(null);
        for (String name : found.names()) {
            if (!name.startsWith(SwitchedGraph.AMAX)) {
                continue;
            }
            Tensor magnitudes = found.read(name);
            long perToken =
                    mask == null ? 0 : mask.rowLength(magnitudes.shape()).orElse(0L);
            float amax = 0;
            for (long i = 0; i < magnitudes.shape().elementCount(); i++) {
                if (mask == null || perToken == 0 || mask.kept().get((int) (i / perToken))) {
                    amax = Math.max(amax, magnitudes.bytes().get(Tensor.F32_LE, i * Float.BYTES));
                }
            }
            inputAmax.merge(name.substring(SwitchedGraph.AMAX.length()), amax, Math::max);
        }
    }

    private OnnxRuntimeSession open(SwitchedGraph graph) throws IOException {
        return GraphSession.open(graph.model(), new SessionSettings(options.threads(), false));
    }

    private static Batch with(Batch batch, Map<String, Tensor> feeds) {
        Map<String, Tensor> all = new LinkedHashMap<>(batch.tensors());
        all.putAll(feeds);
        return new Batch(batch.first(), batch.size(), all);
    }

    /** The model's own weights and every switch off. */
    private Map<String, Tensor> feeds(SwitchedGraph graph, Arena owner) {
        Map<String, Tensor> feeds = new LinkedHashMap<>();
        graph.weights().forEach((name, type) -> feeds.put(name, fed(weight(name), type, owner)));
        graph.switches().values().forEach(s -> feeds.put(s, bool(s, 0)));
        return feeds;
    }

    private Tensor weight(String name) {
        Tensor weight = own.get(name);
        if (weight == null) {
            throw new IllegalArgumentException("no weight " + name);
        }
        return weight;
    }

    private Tensor bool(String name, int value) {
        Tensor bool = Tensor.allocate(arena, new TensorSpec(name, DType.BOOL, Shape.SCALAR));
        bool.bytes().set(ValueLayout.JAVA_BYTE, 0, (byte) value);
        return bool;
    }

    /**
     * Measures every layer in every format.
     *
     * @throws IOException when a temporary file cannot be written
     */
    public Losses measure(List<LinearFormat> formats) throws IOException {
        List<FormatLoss> measured = new ArrayList<>();
        long each = 2L * layers.size() + 1;
        for (LinearFormat format : formats) {
            long done = each * measured.size();
            try (Variants variants = new Variants(format)) {
                OutputLoss all = variants.loss(_ -> true);
                List<LayerLoss> found = new ArrayList<>();
                for (LinearLayer layer : layers) {
                    Optional<String> refusal = format.refusal(layer.shape());
                    OutputLoss alone = refusal.isPresent() ? OutputLoss.NONE : variants.loss(layer::equals);
                    OutputLoss kept = refusal.isPresent() ? all : variants.loss(l -> !l.equals(layer));
                    long bits =
                            refusal.isPresent() ? layer.elements() * layer.storedBits() : format.bits(layer.shape());
                    found.add(new LayerLoss(layer, alone, kept, bits, refusal.orElse("")));
                    options.progress().variants(done + 1 + 2L * found.size(), each * formats.size());
                }
                measured.add(new FormatLoss(format, all, found));
            }
        }
        return new Losses(data.count(), logits, perplexity, measured);
    }

    /**
     * The loss of another model over the same samples, as of a variant of this one.
     *
     * @param candidate takes the same inputs and has the same outputs
     * @throws InvalidDataException when it fails on the samples or lacks an output
     */
    public OutputLoss lossOf(OnnxRuntimeSession candidate) {
        LossSums sums = new LossSums(logits.orElse(null), predicts, options.threads());
        for (int i = 0; i < batches.size(); i++) {
            Set<String> wanted = new LinkedHashSet<>(reference.get(i).keySet());
            wanted.retainAll(candidate.outputs());
            Map<String, Tensor> found = new LinkedHashMap<>();
            try (OnnxRuntimeSession.Outputs outputs = candidate.run(batches.get(i), wanted)) {
                wanted.forEach(name -> found.put(name, outputs.read(name)));
            }
            sums.add(batches.get(i), reference.get(i), found);
        }
        return sums.result();
    }

    /** The model loaded with the switches of one format, and the rounded weights. */
    private final class Variants implements AutoCloseable {
        private final Arena scratch = Arena.ofShared();
        private final SwitchedGraph graph;
        private final OnnxRuntimeSession session;
        private final Map<String, Tensor> plain;
        private final Map<String, Tensor> rounded = new HashMap<>();
        private final Map<String, Tensor> on = new HashMap<>();

        Variants(LinearFormat format) throws IOException {
            graph = SwitchedGraph.of(canonical, layers, format, inputAmax, scratch);
            session = open(graph);
            plain = feeds(graph, scratch);
            for (LinearLayer layer : layers) {
                if (format.refusal(layer.shape()).isPresent()) {
                    continue;
                }
                DType type = graph.weights().getOrDefault(layer.weight(), DType.F32);
                try (Arena passing = Arena.ofShared()) {
                    Tensor values = RoundedWeight.of(weight(layer.weight()), format.weight(), passing);
                    rounded.put(layer.weight(), fed(values, type, scratch));
                }
                String condition = graph.switches().get(layer.weight());
                if (condition != null) {
                    on.put(condition, bool(condition, 1));
                }
            }
        }

        /** The loss with the chosen layers quantised. */
        OutputLoss loss(Predicate<LinearLayer> quantized) {
            Map<String, Tensor> feeds = new LinkedHashMap<>(plain);
            for (LinearLayer layer : layers) {
                Tensor weight = rounded.get(layer.weight());
                if (weight == null || !quantized.test(layer)) {
                    continue;
                }
                feeds.put(layer.weight(), weight);
                String condition = graph.switches().get(layer.weight());
                Tensor yes = condition == null ? null : on.get(condition);
                if (condition != null && yes != null) {
                    feeds.put(condition, yes);
                }
            }
            LossSums sums = new LossSums(logits.orElse(null), predicts, options.threads());
            for (int i = 0; i < batches.size(); i++) {
                Map<String, Tensor> found = new LinkedHashMap<>();
                Set<String> wanted = reference.get(i).keySet();
                try (OnnxRuntimeSession.Outputs outputs = session.run(with(batches.get(i), feeds), wanted)) {
                    wanted.forEach(name -> found.put(name, outputs.read(name)));
                }
                sums.add(batches.get(i), reference.get(i), found);
            }
            return sums.result();
        }

        @Override
        public void close() {
            session.close();
            scratch.close();
        }
    }

    @Override
    public void close() {
        arena.close();
    }
}
