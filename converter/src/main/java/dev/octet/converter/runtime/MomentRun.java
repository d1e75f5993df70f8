package dev.octet.converter.runtime;

import dev.octet.converter.data.Dataset;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.gptq.SecondMoment;
import java.io.IOException;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Sums the second moments H = X^T X of values inside a model over a data set, for error-compensating rounding of the weights that multiply
 * them. Padding rows, as marked by the attention mask, do not count. Needs 8 * K * K / 2 bytes for a value of K channels, for any number of
 * samples.
 */
public final class MomentRun implements TapObserver {
    private final Map<String, SecondMoment> moments = new LinkedHashMap<>();
    private final ProgressListener progress;
    private final int total;

    private MomentRun(Map<String, Integer> channels, ProgressListener progress, int total) {
        channels.forEach((value, k) -> moments.put(value, new SecondMoment(k)));
        this.progress = progress;
        this.total = total;
    }

    /**
     * Runs a data set through a model.
     *
     * @param model standard ONNX
     * @param channels the values, each with the length of its last dimension
     * @param options threads, batch size and progress; the checkpoint is ignored
     * @throws IOException when the data cannot be read
     */
    public static Map<String, SecondMoment> run(
            GraphModel model, Map<String, Integer> channels, Dataset data, CalibrationOptions options)
            throws IOException {
        MomentRun run = new MomentRun(channels, options.progress(), data.count());
        if (!channels.isEmpty()) {
            SessionSettings settings = new SessionSettings(options.threads(), false);
            try (InstrumentedModel tapped = InstrumentedModel.open(model, channels.keySet(), settings)) {
                tapped.run(data, 0, options.batchSize(), run);
            }
        }
        return run.moments;
    }

    @Override
    public void observe(String tap, Tensor value, long rowLength, BitSet kept) {
        SecondMoment moment = moments.get(tap);
        if (moment == null) {
            throw new IllegalArgumentException("no such tap: " + tap);
        }
        moment.add(value.bytes(), rowLength, kept);
    }

    @Override
    public void batchDone(int samples) {
        progress.samples(samples, total);
    }
}
