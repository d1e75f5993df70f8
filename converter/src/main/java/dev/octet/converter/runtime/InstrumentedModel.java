package dev.octet.converter.runtime;

import dev.octet.converter.data.Batch;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.TokenMask;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.TemporaryFolder;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;

/**
 * A model whose outputs are the tapped values inside it. The model's own outputs are dropped together with the nodes that only they need,
 * because every further output would prevent ONNX Runtime's fusions around it.
 *
 * <p>The model is written to a temporary file that is removed after loading, or at the end of the process where files in use cannot be
 * removed (Windows).
 */
public final class InstrumentedModel implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(InstrumentedModel.class.getName());
    /** Most batches that run at once; limits memory on machines with many cores, which then use several threads per batch. */
    private static final int MAX_PARALLEL_RUNS = 4;

    private static final String FOLDER = "tapped";
    private static final String FILE = "tapped.onnx";

    private static final BitSet ONE_ROW = BitSet.valueOf(new long[] {1});

    private final OnnxRuntimeSession session;
    private final @Nullable WeightInputs weights;
    private final GraphModel model;
    private final List<InputSpec> inputs;
    private final Set<String> outputs;
    private final Set<String> taps;
    private final Set<String> heads;
    private final ExecutorService readers;
    private final ExecutorService runners;
    private final int parallelRuns;

    private InstrumentedModel(
            OnnxRuntimeSession session,
            @Nullable WeightInputs weights,
            GraphModel model,
            List<InputSpec> inputs,
            Set<String> taps,
            Set<String> heads,
            int threads) {
        this.session = session;
        this.weights = weights;
        this.model = model;
        this.inputs = inputs;
        this.taps = taps;
        this.heads = heads;
        outputs = new LinkedHashSet<>();
        model.graph().outputs().forEach(o -> outputs.add(o.name()));
        parallelRuns = parallelRuns(threads);
        readers = Executors.newFixedThreadPool(
                threads, Thread.ofPlatform().daemon().name("octet-tap-", 0).factory());
        runners = Executors.newFixedThreadPool(
                parallelRuns, Thread.ofPlatform().daemon().name("octet-run-", 0).factory());
    }

    private static int parallelRuns(int threads) {
        return Math.min(threads, MAX_PARALLEL_RUNS);
    }

    /**
     * Loads a model with taps.
     *
     * @param model standard ONNX
     * @param taps names of values of the graph, at least one: outputs of nodes, inputs, constants
     * @throws InvalidDataException when the graph lacks such a value
     * @throws dev.octet.formats.error.UnsupportedModelException when ONNX Runtime refuses the model
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when the temporary file cannot be written
     */
    public static InstrumentedModel open(GraphModel model, Collection<String> taps, SessionSettings settings)
            throws IOException {
        return open(model, taps, settings, Path.of(System.getProperty("java.io.tmpdir")));
    }

    /** The same with a folder for temporary files. */
    static InstrumentedModel open(GraphModel model, Collection<String> taps, SessionSettings settings, Path temporary)
            throws IOException {
        Set<String> names = new LinkedHashSet<>(taps);
        GraphModel tapped = withOutputs(model, names);
        OnnxRuntime.require();
        OnnxRuntimeSession session;
        try (TemporaryFolder folder = TemporaryFolder.create(FOLDER, temporary)) {
            Path file = folder.path().resolve(FILE);
            OnnxWriter.write(tapped, file);
            session = OnnxRuntime.open(file, perRun(settings));
        }
        return new InstrumentedModel(session, null, tapped, InputSpec.of(tapped), names, Set.of(), settings.threads());
    }

    /**
     * Loads a model or a piece of one, with its weights passed to ONNX Runtime in memory ({@link WeightInputs}). This memory must live
     * until {@link #close()}.
     *
     * @param model its outputs are the taps and the values that {@link Carrier} carries on
     * @param taps the tapped outputs
     * @param heads taps whose tokens lie as {@link Tap.Rows#OF_HEADS}
     * @param inputs of the whole model
     */
    static InstrumentedModel overWeights(
            GraphModel model, Set<String> taps, Set<String> heads, List<InputSpec> inputs, SessionSettings settings)
            throws IOException {
        OnnxRuntime.require();
        WeightInputs weights = WeightInputs.of(model, settings.threads());
        try (TemporaryFolder folder = TemporaryFolder.create(FOLDER)) {
            Path file = folder.path().resolve(FILE);
            OnnxWriter.write(weights.model(), file);
            OnnxRuntimeSession session = OnnxRuntime.open(file, weights.tensors(), perRun(settings));
            return new InstrumentedModel(session, weights, model, inputs, taps, heads, settings.threads());
        } catch (IOException | RuntimeException e) {
            weights.close();
            throw e;
        }
    }

    private static SessionSettings perRun(SessionSettings settings) {
        return settings.withThreads(settings.threads() / parallelRuns(settings.threads()));
    }

    /** The model with these values as outputs. */
    static GraphModel withOutputs(GraphModel model, Collection<String> taps) {
        if (taps.isEmpty()) {
            throw new IllegalArgumentException("no taps");
        }
        GraphEdit edit = GraphEdit.of(model.graph());
        List<ValueInfo> outputs = new ArrayList<>();
        for (String tap : taps) {
            Tensor constant = Optional.ofNullable(edit.initializer(tap))
                    .flatMap(Initializer::tensor)
                    .orElse(null);
            if (constant == null && edit.producer(tap) == null && !edit.isInput(tap)) {
                throw new InvalidDataException(
                        "the model has no value '" + tap + "'",
                        "graph '" + model.graph().name() + "'",
                        "use the names of the model as it is now");
            }
            // ONNX Runtime accepts an input or a constant as an output, but requires its type
            outputs.add(constant == null ? new ValueInfo(tap, edit.type(tap)) : WeightInputs.info(tap, constant));
        }
        edit.setOutputs(outputs);
        return model.withGraph(edit.build());
    }

    /** The tapped values, in the given order. */
    public Set<String> taps() {
        return taps;
    }

    /**
     * Runs samples {@code from} to the last through the model and passes the taps to {@code observer}, batch by batch in order. Several
     * batches run at once on few threads each, while an earlier batch is observed; for small batches this is faster than several threads on
     * one batch. Memory holds only those batches. An exception of the observer ends the run and is thrown here.
     *
     * @param batchSize samples of a batch; the last may have fewer. A fixed batch size of the model takes precedence
     * @throws InvalidDataException when the data do not fit the model
     * @throws IOException when the data cannot be read
     */
    public void run(Dataset data, int from, int batchSize, TapObserver observer) throws IOException {
        run(data, from, batchSize(model, data, batchSize), observer, Carrier.NONE);
    }

    /** The same for a piece of a model; the batch size is as given. */
    void run(Dataset data, int from, int size, TapObserver observer, Carrier carrier) throws IOException {
        Deque<InFlight> window = new ArrayDeque<>();
        try {
            for (int first = from; first < data.count(); first += size) {
                Batch samples = data.batch(first, Math.min(size, data.count() - first));
                Map<String, Tensor> fed = new LinkedHashMap<>(samples.tensors());
                fed.putAll(carrier.next());
                Batch batch = new Batch(samples.first(), samples.size(), fed);
                window.add(new InFlight(batch, runners.submit(() -> session.run(batch, outputs))));
                // one more than the parallel runs, so that no runner waits while a batch is observed
                if (window.size() > parallelRuns) {
                    finish(window.removeFirst(), observer, carrier);
                }
            }
            while (!window.isEmpty()) {
                finish(window.removeFirst(), observer, carrier);
            }
        } finally {
            window.forEach(InstrumentedModel::discard);
        }
    }

    /** A running or finished batch. */
    private record InFlight(Batch batch, Future<OnnxRuntimeSession.Outputs> outputs) {}

    private void finish(InFlight run, TapObserver observer, Carrier carrier) throws IOException {
        try (OnnxRuntimeSession.Outputs computed = await(run.outputs())) {
            observeAll(computed, run.batch(), observer);
            carrier.computed(run.batch(), computed);
        }
        observer.batchDone(run.batch().first() + run.batch().size());
    }

    /** Frees the outputs of a batch that follows a failed one. */
    private static void discard(InFlight run) {
        try (OnnxRuntimeSession.Outputs dropped = await(run.outputs())) {
            LOG.log(
                    System.Logger.Level.DEBUG,
                    "dropped {0} outputs",
                    dropped.names().size());
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.DEBUG, "a batch behind the failed one failed as well", e);
        }
    }

    private static <T> T await(Future<T> future) {
        try {
            return future.get();
        } catch (ExecutionException e) {
            throw e.getCause() instanceof RuntimeException r ? r : new IllegalStateException(e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CancellationException("interrupted");
        }
    }

    /** Runs one batch and returns the taps. */
    public OnnxRuntimeSession.Outputs run(Batch batch) {
        return session.run(batch, outputs);
    }

    /**
     * Elements of each token in a tapped value; empty when it has no token axis. If the model declares the value's second axis as a number
     * and the mask's as a symbol, the two are equal in this batch only by coincidence (12 attention heads, 12 tokens).
     */
    public Optional<Long> rowLength(String tap, Shape value, TokenMask mask) {
        boolean byChance = value.rank() >= 3
                && value.dim(0) == mask.batch()
                && fixedSecondAxis(tap)
                && inputs.stream()
                        .noneMatch(i -> i.name().equals(Batch.ATTENTION_MASK)
                                && i.fixed(1).isPresent());
        return byChance ? Optional.empty() : mask.rowLength(value);
    }

    private boolean fixedSecondAxis(String tap) {
        return model.graph().outputs().stream()
                .filter(o -> o.name().equals(tap))
                .anyMatch(o -> o.type() instanceof ValueType.TensorType t
                        && t.dims() != null
                        && t.dims().size() > 1
                        && t.dims().get(1).isKnown());
    }

    /** The batch size of the run: the wanted size, unless the model fixes another or the data allow only a smaller one. */
    static int batchSize(GraphModel model, Dataset data, int wanted) {
        OptionalLong fixed = InputSpec.fixedBatch(InputSpec.of(model));
        if (fixed.isPresent() && (fixed.getAsLong() < 1 || data.count() % fixed.getAsLong() != 0)) {
            throw new InvalidDataException(
                    "the model takes batches of exactly " + fixed.getAsLong() + " samples, there are " + data.count(),
                    data.name(),
                    "give a multiple of that many samples, or export the model with a dynamic batch axis");
        }
        return Math.toIntExact(fixed.orElse(Math.min(wanted, data.largestBatch())));
    }

    /**
     * Observes taps on all threads, because ONNX Runtime's are idle between runs. One thread observes a tap, so the results do not depend
     * on the number of threads.
     */
    private void observeAll(OnnxRuntimeSession.Outputs computed, Batch batch, TapObserver observer) {
        TokenMask mask = batch.mask().orElse(null);
        List<Future<?>> pending = new ArrayList<>();
        for (String tap : taps) {
            pending.add(readers.submit(() -> {
                Tensor value = computed.read(tap);
                if (value.shape().elementCount() == 0) {
                    return; // an expert without tokens in this batch
                }
                if (heads.contains(tap)
                        && value.shape().rank() == 4
                        && (mask == null || mask.fitsHeads(value.shape()))) {
                    observer.observe(tap, value, value.shape().dim(3), rowsOfHeads(value.shape(), mask));
                    return;
                }
                long perToken =
                        mask == null ? 0 : rowLength(tap, value.shape(), mask).orElse(0L);
                if (mask != null && perToken > 0) {
                    observer.observe(tap, value, perToken, mask.kept());
                } else {
                    observer.observe(tap, value, Math.max(1, value.shape().elementCount()), ONE_ROW);
                }
            }));
        }
        awaitAll(pending);
    }

    private static BitSet rowsOfHeads(Shape value, @Nullable TokenMask mask) {
        if (mask != null) {
            return mask.ofHeads(Math.toIntExact(value.dim(1)));
        }
        BitSet all = new BitSet();
        all.set(0, Math.toIntExact(value.dim(0) * value.dim(1) * value.dim(2)));
        return all;
    }

    /** Waits for all, even if one failed, because the outputs must not be freed while they are read. */
    private static void awaitAll(List<Future<?>> pending) {
        RuntimeException failure = null;
        for (Future<?> f : pending) {
            try {
                f.get();
            } catch (ExecutionException e) {
                failure = e.getCause() instanceof RuntimeException r ? r : new IllegalStateException(e.getCause());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                failure = new CancellationException("interrupted");
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    @Override
    public void close() throws IOException {
        runners.shutdown();
        readers.shutdown();
        session.close();
        if (weights != null) {
            weights.close();
        }
    }
}
