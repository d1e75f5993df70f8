package dev.octet.converter.runtime;

import dev.octet.converter.data.Batch;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.TokenMask;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.Comparator;
import java.util.Deque;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;

/**
 * A model whose outputs are values inside it: exactly those that somebody wants to look at. The model's own outputs go, and with them
 * what only they need; every further tap would hinder ONNX Runtime's fusions around it.
 *
 * <p>The model is written to a temporary file that is removed as soon as it is loaded, so that not even a killed process leaves it; where
 * files in use cannot be removed (Windows), when this is closed.
 */
public final class TappedModel implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(TappedModel.class.getName());
    /** Batches that run at once; bounds memory on machines of many cores, which then have several threads per batch. */
    private static final int MAX_PARALLEL_RUNS = 4;

    private static final BitSet ONE_ROW = BitSet.valueOf(new long[] {1});

    private final Path folder;
    private final OnnxRuntimeSession session;
    private final GraphModel model;
    private final Set<String> taps;
    private final ExecutorService readers;
    private final ExecutorService runners;
    private final int parallelRuns;

    private TappedModel(
            Path folder,
            OnnxRuntimeSession session,
            GraphModel model,
            Set<String> taps,
            ExecutorService readers,
            ExecutorService runners,
            int parallelRuns) {
        this.folder = folder;
        this.session = session;
        this.model = model;
        this.taps = taps;
        this.readers = readers;
        this.runners = runners;
        this.parallelRuns = parallelRuns;
    }

    /**
     * Loads a model with taps.
     *
     * @param model standard ONNX
     * @param taps names of values that nodes compute, at least one; a graph input or constant cannot be tapped
     * @throws InvalidDataException when there is no such value
     * @throws dev.octet.formats.error.UnsupportedModelException when ONNX Runtime refuses the model
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when the temporary file cannot be written
     */
    public static TappedModel open(GraphModel model, Collection<String> taps, SessionSettings settings)
            throws IOException {
        return open(model, taps, settings, Path.of(System.getProperty("java.io.tmpdir")));
    }

    /** The same with the folder that temporary files lie in. */
    static TappedModel open(GraphModel model, Collection<String> taps, SessionSettings settings, Path temporary)
            throws IOException {
        Set<String> names = new LinkedHashSet<>(taps);
        GraphModel tapped = withOutputs(model, names);
        int parallelRuns = Math.min(settings.threads(), MAX_PARALLEL_RUNS);
        Path folder = Files.createTempDirectory(temporary, "octet-tapped-");
        OnnxRuntimeSession session;
        try {
            Path file = folder.resolve("tapped.onnx");
            OnnxWriter.write(tapped, file);
            session = OnnxRuntimeSession.open(file, settings.withThreads(settings.threads() / parallelRuns));
        } finally {
            deleteIfPossible(folder);
        }
        ExecutorService readers = Executors.newFixedThreadPool(
                settings.threads(),
                Thread.ofPlatform().daemon().name("octet-tap-", 0).factory());
        ExecutorService runners = Executors.newFixedThreadPool(
                parallelRuns, Thread.ofPlatform().daemon().name("octet-run-", 0).factory());
        return new TappedModel(folder, session, tapped, names, readers, runners, parallelRuns);
    }

    private static GraphModel withOutputs(GraphModel model, Set<String> taps) {
        if (taps.isEmpty()) {
            throw new IllegalArgumentException("no taps");
        }
        GraphEdit edit = GraphEdit.of(model.graph());
        List<ValueInfo> outputs = new ArrayList<>();
        for (String tap : taps) {
            if (edit.producer(tap) == null) {
                throw new InvalidDataException(
                        "no node computes the value '" + tap + "'",
                        "graph '" + model.graph().name() + "'",
                        "use the names of the model as it is now");
            }
            outputs.add(new ValueInfo(tap, edit.type(tap)));
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
        int size = batchSize(model, data, batchSize);
        Deque<InFlight> window = new ArrayDeque<>();
        try {
            for (int first = from; first < data.count(); first += size) {
                Batch batch = data.batch(first, Math.min(size, data.count() - first));
                window.add(new InFlight(batch, runners.submit(() -> session.run(batch, taps))));
                // one more than run at a time, so that no runner waits while a batch is looked at
                if (window.size() > parallelRuns) {
                    finish(window.removeFirst(), observer);
                }
            }
            while (!window.isEmpty()) {
                finish(window.removeFirst(), observer);
            }
        } finally {
            window.forEach(TappedModel::discard);
        }
    }

    /** A batch that is running or has run. */
    private record InFlight(Batch batch, Future<OnnxRuntimeSession.Outputs> outputs) {}

    private void finish(InFlight run, TapObserver observer) {
        try (OnnxRuntimeSession.Outputs outputs = await(run.outputs())) {
            observeAll(outputs, run.batch(), observer);
        }
        observer.batchDone(run.batch().first() + run.batch().size());
    }

    /** Frees what a batch came to that nobody will look at, because an earlier one failed. */
    private static void discard(InFlight run) {
        try (OnnxRuntimeSession.Outputs outputs = await(run.outputs())) {
            LOG.log(
                    System.Logger.Level.DEBUG,
                    "dropped {0} outputs",
                    outputs.names().size());
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
        return session.run(batch, taps);
    }

    /**
     * Elements of each token in a tapped value; empty when it has no token axis. Where the model says that the second axis is a number
     * while that of the mask is not, the two only happen to be equal in this batch (12 attention heads, 12 tokens).
     */
    public Optional<Long> rowLength(String tap, Shape value, TokenMask mask) {
        boolean byChance = value.rank() >= 3
                && value.dim(0) == mask.batch()
                && fixedSecondAxis(tap)
                && InputSpec.of(model).stream()
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

    /** The batch size to run with: the wanted one, unless the model fixes another. */
    private static int batchSize(GraphModel model, Dataset data, int wanted) {
        OptionalLong fixed = InputSpec.fixedBatch(InputSpec.of(model));
        if (fixed.isPresent() && (fixed.getAsLong() < 1 || data.count() % fixed.getAsLong() != 0)) {
            throw new InvalidDataException(
                    "the model takes batches of exactly " + fixed.getAsLong() + " samples, there are " + data.count(),
                    data.name(),
                    "give a multiple of that many samples, or export the model with a dynamic batch axis");
        }
        return Math.toIntExact(fixed.orElse(wanted));
    }

    /** On all threads: between two runs ONNX Runtime's own are idle. A tap is looked at by one of them, so the results do not depend on their number. */
    private void observeAll(OnnxRuntimeSession.Outputs outputs, Batch batch, TapObserver observer) {
        TokenMask mask = batch.mask().orElse(null);
        List<Future<?>> pending = new ArrayList<>();
        for (String tap : taps) {
            pending.add(readers.submit(() -> {
                Tensor value = outputs.read(tap);
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

    private static void deleteIfPossible(Path folder) {
        try {
            delete(folder);
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "the file is in use; it is removed at the end", e);
        }
    }

    private static void delete(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            return;
        }
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path p : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(p);
            }
        }
    }

    @Override
    public void close() throws IOException {
        runners.shutdown();
        readers.shutdown();
        session.close();
        delete(folder);
    }
}
