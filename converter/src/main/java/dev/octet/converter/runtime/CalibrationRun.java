package dev.octet.converter.runtime;

import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsAccumulator;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Takes the statistics of values inside a model over a data set. Memory does not depend on the number of samples. Padding rows, as marked
 * by the attention mask, do not count.
 *
 * <p>With a checkpoint file, an interrupted run resumes from the last write of the file and ends with the same statistics as an
 * uninterrupted run (given the same batch size and threads).
 */
public final class CalibrationRun implements TapObserver {
    private final List<Tap> taps;
    /** By value name. */
    private final Map<String, StatisticsAccumulator> accumulators = new LinkedHashMap<>();

    private final String modelDigest;
    private final Dataset data;
    private final CalibrationOptions options;
    /** Null when no second moments are taken. */
    private final @Nullable MomentSums moments;
    /** Queries, keys and values, with the heads that lie side by side in them; 0 where they have an axis of heads. */
    private final Map<String, Integer> heads = new LinkedHashMap<>();

    /** Inputs of Linears, with their channels. */
    private final Map<String, Integer> channels;
    /** Whether the statistics are complete, and only second moments are taken. */
    private final boolean momentsOnly;

    private int written;
    private int done;
    private boolean inPieces;

    private CalibrationRun(
            Statistics start, List<Tap> taps, Dataset data, CalibrationOptions options, @Nullable MomentSums moments) {
        this.taps = taps;
        this.moments = moments;
        momentsOnly = moments != null && start.complete();
        channels = channels(taps);
        taps.stream().filter(t -> t.rows() == Tap.Rows.OF_HEADS).forEach(t -> heads.put(t.value(), t.joinedHeads()));
        taps.forEach(t -> accumulators.put(t.value(), accumulator(start, t.name())));
        modelDigest = start.modelDigest();
        this.data = data;
        this.options = options;
        done = Math.toIntExact(start.samplesDone());
        written = done;
    }

    private static StatisticsAccumulator accumulator(Statistics s, String name) {
        return new StatisticsAccumulator(s.tensors().getOrDefault(name, TensorStatistics.EMPTY));
    }

    /**
     * Runs a data set through a model and takes statistics of values under their own names.
     *
     * @param model standard ONNX, as ONNX Runtime can run it
     * @param modelDigest SHA-256 of the user's model file; goes into the statistics
     * @param taps names of the values to measure
     * @throws InvalidDataException when the checkpoint is of another model, data set or set of values; when the data do not fit
     * @throws UnsupportedModelException when ONNX Runtime refuses the model
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when data cannot be read, or the checkpoint not be written
     */
    public static Statistics run(
            GraphModel model, String modelDigest, Collection<String> taps, Dataset data, CalibrationOptions options)
            throws IOException {
        return runTaps(model, modelDigest, taps.stream().distinct().map(Tap::of).toList(), data, options);
    }

    /**
     * Runs a data set through a model.
     *
     * @param model standard ONNX, as ONNX Runtime can run it
     * @param modelDigest identifies the user's model; goes into the statistics
     * @param taps the values to measure, each name once
     * @throws UnsupportedModelException when there are no taps, or ONNX Runtime refuses the model
     * @throws InvalidDataException when the checkpoint is of another model, data set or set of values; when the data do not fit
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when data cannot be read, or the checkpoint not be written
     */
    public static Statistics runTaps(
            GraphModel model, String modelDigest, List<Tap> taps, Dataset data, CalibrationOptions options)
            throws IOException {
        Set<String> names = new LinkedHashSet<>();
        for (Tap tap : taps) {
            if (!names.add(tap.name())) {
                throw new IllegalArgumentException("two taps are called '" + tap.name() + "'");
            }
        }
        if (names.isEmpty()) {
            throw new UnsupportedModelException(
                    "there is nothing to calibrate: no value of the model needs statistics",
                    "graph '" + model.graph().name() + "'",
                    "`octet inspect` shows the layers that need statistics");
        }
        Statistics start = start(modelDigest, taps, data, options);
        if (options.secondMoments() == null) {
            return start.complete()
                    ? start
                    : runFrom(start, Math.toIntExact(start.samplesDone()), null, model, taps, data, options);
        }
        Statistics nothing = nothing(modelDigest, names, data);
        Map<String, String> origin = new LinkedHashMap<>(SecondMomentsFile.origin(nothing));
        origin.remove(SecondMomentsFile.SAMPLES);
        try (MomentSums moments = MomentSums.open(channels(taps), options.checkpoint(), origin)) {
            int done = Math.toIntExact(start.samplesDone());
            if (start.complete()) {
                return runFrom(start, moments.samples().orElse(0), moments, model, taps, data, options);
            }
            return done == 0 || moments.has(done)
                    ? runFrom(start, done, moments, model, taps, data, options)
                    : runFrom(
                            nothing, 0, moments, model, taps, data, options); // the first samples had no moments taken
        }
    }

    /** Channels of the values whose second moments can be taken. */
    private static Map<String, Integer> channels(List<Tap> taps) {
        Map<String, Integer> channels = new LinkedHashMap<>();
        taps.stream()
                .filter(t -> t.channels() > 0 && t.channels() <= SecondMoment.MAX_SIZE)
                .forEach(t -> channels.put(t.value(), t.channels()));
        return channels;
    }

    private static Statistics runFrom(
            Statistics start,
            int from,
            @Nullable MomentSums moments,
            GraphModel model,
            List<Tap> taps,
            Dataset data,
            CalibrationOptions options)
            throws IOException {
        CalibrationRun run = new CalibrationRun(start, taps, data, options, moments);
        try {
            run.run(model, from);
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
        return run.statistics();
    }

    /** Removes the state of an interrupted run next to this checkpoint, but not the checkpoint, which the caller owns. */
    public static void discard(Path checkpoint) throws IOException {
        PieceState.discard(checkpoint);
    }

    private void run(GraphModel model, int from) throws IOException {
        ModelCut cut =
                ModelCut.of(model, accumulators.keySet(), moments == null ? Map.of() : MomentSums.bytes(channels));
        int batchSize = InstrumentedModel.batchSize(model, data, options.batchSize());
        written = from;
        if (moments != null) {
            moments.startFrom(from);
        }
        try (PieceState state = PieceState.open(options.checkpoint(), identity(batchSize, from))) {
            List<Integer> ends = cut.ends(state.position(), options.memory());
            if (state.position() == 0 && ends.size() == 1) {
                if (moments != null) {
                    moments.begin(cut.wanted(0, cut.end()));
                }
                try (InstrumentedModel whole = open(model, cut, 0, cut.end(), Map.of())) {
                    whole.run(data, from, batchSize, this, Carrier.NONE);
                }
            } else {
                runPieces(model, cut, ends, batchSize, state, from);
            }
            finish();
            state.finished();
        }
    }

    /** Writes second moments before statistics: a file of complete statistics is not without them unless the user wanted so. */
    private void finish() throws IOException {
        done = data.count();
        if (moments != null) {
            Statistics now = statistics();
            List<Tap> first = taps.stream().filter(t -> !t.isRepeated()).toList();
            moments.writeAll(Objects.requireNonNull(options.secondMoments()), first, SecondMomentsFile.origin(now));
        }
        if (options.checkpoint() != null && !momentsOnly) {
            StatisticsFile.write(statistics(), options.checkpoint());
        }
    }

    /** Identifies runs that can resume from each other's values; the memory limit may differ. */
    private String identity(int batchSize, int from) {
        List<String> parts = new ArrayList<>(List.of(
                "pieces",
                OctetVersion.current(),
                modelDigest,
                data.digest(),
                String.valueOf(batchSize),
                String.valueOf(from),
                moments == null ? "" : momentsOnly ? "moments only" : "moments"));
        taps.forEach(t -> parts.add(t.value() + " " + t.rows() + " " + t.channels() + " " + t.joinedHeads()));
        return Sha256.of(parts.toArray(String[]::new));
    }

    private InstrumentedModel open(GraphModel model, ModelCut cut, int from, int to, Map<String, DType> types)
            throws IOException {
        return InstrumentedModel.overWeights(
                cut.piece(from, to, types),
                cut.wanted(from, to),
                heads.keySet(),
                InputSpec.of(model),
                new SessionSettings(options.threads(), false));
    }

    /** Runs all samples through one piece, then through the next. */
    private void runPieces(
            GraphModel model, ModelCut cut, List<Integer> ends, int batchSize, PieceState state, int from)
            throws IOException {
        Statistics left = state.statistics();
        if (left != null) {
            accumulators.keySet().forEach(v -> accumulators.put(v, accumulator(left, v)));
        } else if (options.checkpoint() != null && done == 0) {
            StatisticsFile.write(statistics(), options.checkpoint()); // marks the run as begun
        }
        inPieces = true;
        for (int i = 0; i < ends.size(); i++) {
            int start = state.position();
            int end = ends.get(i);
            options.progress().piece(i + 1, ends.size());
            ActivationSpill in = state.values();
            boolean last = end == cut.end();
            ActivationSpill out = last ? null : state.create();
            boolean handedOver = false;
            if (moments != null) {
                moments.begin(cut.wanted(start, end));
            }
            try (InstrumentedModel piece = open(model, cut, start, end, SpoolCarrier.types(in, cut.carried(start)))) {
                piece.run(data, from, batchSize, this, new SpoolCarrier(in, cut.carried(start), out, cut.carried(end)));
                if (out != null) {
                    if (moments != null) {
                        moments.reached(end);
                    }
                    state.reached(end, out, byValue(state.identity()));
                    handedOver = true;
                }
            } finally {
                if (out != null && !handedOver) {
                    out.discard();
                }
            }
        }
    }

    /** The statistics so far, each value once, for resuming. */
    private Statistics byValue(String identity) {
        Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        accumulators.forEach((value, a) -> tensors.put(value, a.snapshot()));
        return Statistics.of(identity, new DataPart(data.digest(), data.name(), done, data.count()), tensors);
    }

    private static Statistics start(String modelDigest, List<Tap> taps, Dataset data, CalibrationOptions options)
            throws IOException {
        Path checkpoint = options.checkpoint();
        if (checkpoint != null && Files.exists(checkpoint)) {
            Statistics s = StatisticsFile.read(checkpoint);
            checkSameRun(s, checkpoint, modelDigest, names(taps, s.complete() ? Tap::module : Tap::name), data);
            return s;
        }
        return nothing(modelDigest, names(taps, Tap::name), data);
    }

    private static Set<String> names(List<Tap> taps, Function<Tap, String> name) {
        return taps.stream().map(name).collect(Collectors.toCollection(LinkedHashSet::new));
    }

    private static Statistics nothing(String modelDigest, Set<String> taps, Dataset data) {
        Map<String, TensorStatistics> nothing = new LinkedHashMap<>();
        taps.forEach(t -> nothing.put(t, TensorStatistics.EMPTY));
        return Statistics.of(modelDigest, new DataPart(data.digest(), data.name(), 0, data.count()), nothing);
    }

    private static void checkSameRun(Statistics s, Path file, String modelDigest, Set<String> taps, Dataset data) {
        if (!s.modelDigest().equals(modelDigest)) {
            throw refused("of another model", file);
        }
        if (s.data().size() != 1 || !s.data().getFirst().digest().equals(data.digest())) {
            throw refused(
                    "of other data ('" + s.data().getFirst().name() + "'), or of this data read differently", file);
        }
        if (s.data().getFirst().samplesTotal() != data.count()) {
            throw refused(
                    "of a run over " + s.data().getFirst().samplesTotal() + " samples, not " + data.count(), file);
        }
        if (!s.tensors().keySet().equals(taps)) {
            throw refused("of other values of the model (another recipe, or other --keep patterns)", file);
        }
    }

    private static InvalidDataException refused(String what, Path file) {
        return new InvalidDataException(
                "the statistics to resume from are " + what,
                file.toString(),
                "give another output file, or delete this file to start over");
    }

    @Override
    public void observe(String tap, Tensor value, long rowLength, BitSet kept) {
        StatisticsAccumulator a = accumulators.get(tap);
        if (a == null) {
            throw new IllegalArgumentException("no such tap: " + tap);
        }
        if (!momentsOnly) {
            add(a, tap, value, rowLength, kept);
        }
        if (moments != null && channels.containsKey(tap)) {
            moments.add(tap, value, rowLength, kept);
        }
    }

    private void add(StatisticsAccumulator a, String tap, Tensor value, long rowLength, BitSet kept) {
        Shape shape = value.shape();
        int size = channels.getOrDefault(tap, 0);
        int joined = heads.getOrDefault(tap, 0);
        if (heads.containsKey(tap) && shape.rank() == 4 && rowLength == shape.dim(3)) {
            a.addWithHeads(
                    value.bytes(),
                    kept,
                    new StatisticsAccumulator.HeadShape(
                            Math.toIntExact(shape.dim(1)),
                            Math.toIntExact(shape.dim(2)),
                            Math.toIntExact(shape.dim(3))));
        } else if (joined > 0 && shape.rank() == 3 && shape.dim(2) % joined == 0 && rowLength % shape.dim(2) == 0) {
            a.addWithJoinedHeads(value.bytes(), rowLength, kept, joined, Math.toIntExact(shape.dim(2) / joined));
        } else if (size > 0) {
            a.addWithChannels(value.bytes(), rowLength, kept, size);
        } else {
            a.add(value.bytes(), rowLength, kept);
        }
    }

    @Override
    public void batchDone(int samples) {
        if (inPieces) { // written at the end of the piece
            options.progress().samples(samples, data.count());
            return;
        }
        done = samples;
        if (options.checkpoint() != null && done - written >= options.checkpointSamples() && done < data.count()) {
            try {
                checkpoint(options.checkpoint());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        options.progress().samples(done, data.count());
    }

    private void checkpoint(Path file) throws IOException {
        if (moments != null) {
            if (!moments.isDue()) {
                return;
            }
            moments.keep(done);
        }
        if (!momentsOnly) {
            StatisticsFile.write(statistics(), file);
        }
        if (moments != null) {
            moments.forgetBefore(done);
        }
        written = done;
    }

    private Statistics statistics() {
        Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        Map<String, TensorStatistics> values = new HashMap<>();
        accumulators.forEach((value, a) -> values.put(value, a.snapshot()));
        boolean complete = done >= data.count();
        for (Tap t : taps) {
            TensorStatistics own = values.getOrDefault(t.value(), TensorStatistics.EMPTY);
            // calls of a module are added up at the end only: a run that is resumed goes on with each
            tensors.merge(complete ? t.module() : t.name(), own, TensorStatistics::merge);
        }
        return Statistics.of(modelDigest, new DataPart(data.digest(), data.name(), done, data.count()), tensors);
    }
}
