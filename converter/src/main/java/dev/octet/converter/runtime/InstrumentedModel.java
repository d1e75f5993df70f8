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
 * A model whose outputs are values inside it: exactly those that somebody wants to look at. The model's own outputs go, and with them
 * what only they need; every further tap would hinder ONNX Runtime's fusions around it.
 *
 * <p>The model is written to a temporary file that is removed as soon as it is loaded; where files in use cannot be removed (Windows),
 * when the process ends.
 */
public final class InstrumentedModel implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(InstrumentedModel.class.getName());
    /** Batches that run at once; bounds memory on machines of many cores, which then have several threads per batch. */
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
     * @param taps names of values of the graph, at least one: what nodes compute, inputs, constants
     * @throws InvalidDataException when there is no such value
     * @throws dev.octet.formats.error.UnsupportedModelException when ONNX Runtime refuses the model
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when the temporary file cannot be written
     */
    public static InstrumentedModel open(GraphModel model, Collection<String> taps, SessionSettings settings)
            throws IOException {
        return open(model, taps, settings, Path.of(System.getProperty("java.io.tmpdir")));
    }

    /** The same with the folder that temporary files lie in. */
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
     * Loads a model, or a piece of one, whose weights ONNX Runtime is given in memory ({@link WeightInputs}). The weights' memory must live until
     * {@link #close()}.
     *
     * @param model its outputs are the taps, and what {@link Carrier} carries on
     * @param taps among the outputs
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

    /** The model with other outputs. */
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
                        "there is no value '" + tap + "' in the model",
                        "graph '" + model.graph().name() + "'",
                        "use the names of the model as it is now");
            }
            // ONNX Runtime takes an input or a constant as an output, too, but wants the type of it
            outputs.add(constant == null ? new ValueInfo(tap, edit.type(tap)) : WeightInputs.info(tap, constant));
        }
        edit.setOutputs(outputs);
        return model.withGraph(edit.build());
    }

    /** The tapped values, in the order they were asked for. */
    public Set<String> taps() {
        return taps;
    }

    /**
     * Runs samples {@code from} to the last through the model and shows the taps to {@code observer}, batch by batch in order. Several
     * batches run at once, each on few threads, while an earlier one is looked at: for small batches that is faster than several threads
     * on one. Memory holds those batches, however many samples there are. Whatever the observer throws ends the run and comes out here.
     *
     * @param batchSize samples of a batch; the last may have fewer. A model that fixes its batch size has its way
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
                // one more than run at a time, so that no runner waits while a batch is looked at
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

    /** A batch that is running or has run. */
    private record InFlight(Batch batch, Future<OnnxRuntimeSession.Outputs> outputs) {}

    private void finish(InFlight run, TapObserver observer, Carrier carrier) throws IOException {
        try (OnnxRuntimeSession.Outputs computed = await(run.outputs())) {
            observeAll(computed, run.batch(), observer);
            carrier.computed(run.batch(), computed);
        }
        observer.batchDone(run.batch().first() + run.batch().size());
    }

    /** Frees what a batch came to that nobody will look at, because an earlier one failed. */
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

    /** Runs one batch; the outputs are the taps. */
    public OnnxRuntimeSession.Outputs run(Batch batch) {
        return session.run(batch, outputs);
    }

    /**
     * Elements of each token in a tapped value; empty when it has no token axis. Where the model says that the second axis is a number
     * while that of the mask is not, the two only happen to be equal in this batch (12 attention heads, 12 tokens).
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

    /** The batch size to run with: the wanted one, unless the model fixes another or the data allow only a smaller one. */
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

    /** On all threads: between two runs ONNX Runtime's own are idle. A tap is looked at by one of them, so the results do not depend on their number. */
    private void observeAll(OnnxRuntimeSession.Outputs computed, Batch batch, TapObserver observer) {
        TokenMask mask = batch.mask().orElse(null);
        List<Future<?>> pending = new ArrayList<>();
        for (String tap : taps) {
            pending.add(readers.submit(() -> {
                Tensor value = computed.read(tap);
                if (mask != null && heads.contains(tap) && mask.fitsHeads(value.shape())) {
                    observer.observe(
                            tap,
                            value,
                            value.shape().dim(3),
                            mask.ofHeads(Math.toIntExact(value.shape().dim(1))));
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

    /** Waits for all, also when one failed: the outputs must not be freed under a reader. */
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
