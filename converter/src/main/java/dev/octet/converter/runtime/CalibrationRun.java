package dev.octet.converter.runtime;

import dev.octet.converter.data.Dataset;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsAccumulator;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;

/**
 * Takes the statistics of values inside a model over a data set. Memory does not depend on the number of samples; rows that the
 * attention mask pads are left out.
 *
 * <p>With a checkpoint file an interrupted run goes on where the file was last written, and ends with the very statistics of a run that
 * was never interrupted (given the same batch size and threads).
 */
public final class CalibrationRun implements TapObserver {
    private final Map<String, StatisticsAccumulator> accumulators = new LinkedHashMap<>();
    private final String modelDigest;
    private final Dataset data;
    private final CalibrationOptions options;
    private int written;
    private int done;

    private CalibrationRun(Statistics start, Dataset data, CalibrationOptions options) {
        start.tensors().forEach((name, t) -> accumulators.put(name, new StatisticsAccumulator(t)));
        modelDigest = start.modelDigest();
        this.data = data;
        this.options = options;
        done = Math.toIntExact(start.samplesDone());
        written = done;
    }

    /**
     * Runs a data set through a model.
     *
     * @param model standard ONNX, as ONNX Runtime can run it
     * @param modelDigest SHA-256 of the file that the user knows the model by; goes into the statistics
     * @param taps names of the values to measure
     * @throws InvalidDataException when the checkpoint is of another model, data set or set of values; when the data do not fit
     * @throws dev.octet.formats.error.UnsupportedModelException when ONNX Runtime refuses the model
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when data cannot be read, or the checkpoint not be written
     */
    public static Statistics run(
            GraphModel model, String modelDigest, Collection<String> taps, Dataset data, CalibrationOptions options)
            throws IOException {
        Set<String> names = new LinkedHashSet<>(taps);
        Statistics start = start(modelDigest, names, data, options);
        if (start.complete() || names.isEmpty()) {
            return start;
        }
        CalibrationRun run = new CalibrationRun(start, data, options);
        SessionSettings settings = new SessionSettings(options.threads(), false);
        try (TappedModel tapped = TappedModel.open(model, names, settings)) {
            tapped.run(data, run.done, options.batchSize(), run);
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
        return run.statistics();
    }

    private static Statistics start(String modelDigest, Set<String> taps, Dataset data, CalibrationOptions options)
            throws IOException {
        Path checkpoint = options.checkpoint();
        if (checkpoint != null && Files.exists(checkpoint)) {
            Statistics s = StatisticsFile.read(checkpoint);
            checkSameRun(s, checkpoint, modelDigest, taps, data);
            return s;
        }
        Map<String, TensorStatistics> nothing = new LinkedHashMap<>();
        taps.forEach(t -> nothing.put(t, TensorStatistics.EMPTY));
        return Statistics.of(modelDigest, new DataPart(data.digest(), data.name(), 0, data.count()), nothing);
    }

    private static void checkSameRun(Statistics s, Path file, String modelDigest, Set<String> taps, Dataset data) {
        if (!s.modelDigest().equals(modelDigest)) {
            throw refused("of another model", file);
        }
        if (s.data().size() != 1 || !s.data().getFirst().digest().equals(data.digest())) {
            throw refused("of other data ('" + s.data().getFirst().name() + "'), or of this read another way", file);
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
                "the statistics to go on from are " + what,
                file.toString(),
                "give another output file, or delete this one to start anew");
    }

    @Override
    public void observe(String tap, Tensor value, long rowLength, BitSet kept) {
        StatisticsAccumulator a = accumulators.get(tap);
        if (a == null) {
            throw new IllegalArgumentException("no such tap: " + tap);
        }
        a.add(value.bytes(), rowLength, kept);
    }

    @Override
    public void batchDone(int samples) {
        done = samples;
        Path checkpoint = options.checkpoint();
        if (checkpoint != null && (done - written >= options.checkpointSamples() || done == data.count())) {
            try {
                StatisticsFile.write(statistics(), checkpoint);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            written = done;
        }
        options.progress().samples(done, data.count());
    }

    private Statistics statistics() {
        Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        accumulators.forEach((name, a) -> tensors.put(name, a.snapshot()));
        return Statistics.of(modelDigest, new DataPart(data.digest(), data.name(), done, data.count()), tensors);
    }
}
