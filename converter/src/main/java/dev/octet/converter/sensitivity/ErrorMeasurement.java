package dev.octet.converter.sensitivity;

import dev.octet.converter.runtime.TapObserver;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.statistics.TensorStatistics;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The error of Linears' outputs on real inputs, each Linear alone on the input that the original model gives it: the truth that {@link
 * ErrorPrediction} foretells. Products are computed here, in double precision, over some rows of each batch and the same output channels that
 * predictions look at.
 */
public final class ErrorMeasurement implements TapObserver {
    /** Rows of a batch that are looked at, evenly spread. */
    private static final int ROWS = 64;

    /** A Linear with its weight before and after. */
    private static final class Layer {
        private final LinearFormat format;
        private final @Nullable TensorStatistics statistics;
        private final List<float[]> weight = new ArrayList<>();
        private final List<float[]> rounded = new ArrayList<>();
        private double signal;
        private double ofWeight;
        private double ofInput;
        private double error;
        private long rows;

        Layer(LinearFormat format, @Nullable TensorStatistics statistics) {
            this.format = format;
            this.statistics = statistics;
        }
    }

    private final Calibrator calibrator;
    private final Map<String, List<Layer>> byInput = new LinkedHashMap<>();
    private final Map<String, Layer> byName = new LinkedHashMap<>();

    /** Measures nothing yet. */
    public ErrorMeasurement(Calibrator calibrator) {
        this.calibrator = calibrator;
    }

    /**
     * Adds a Linear.
     *
     * @param name of the result
     * @param input the value it reads
     * @param weight F32 [out, in]
     * @param rounded what the codes stand for, F32 [out, in]
     * @param statistics of the input, for a static scale; null where it is found at run time
     */
    public void add(
            String name,
            String input,
            LinearFormat format,
            Tensor weight,
            Tensor rounded,
            @Nullable TensorStatistics statistics) {
        Layer layer = new Layer(format, statistics);
        int in = Math.toIntExact(weight.shape().dim(1));
        for (int out : ErrorPrediction.channels(weight.shape().dim(0))) {
            layer.weight.add(ErrorPrediction.row(weight, out, in));
            layer.rounded.add(ErrorPrediction.row(rounded, out, in));
        }
        byInput.computeIfAbsent(input, _ -> new ArrayList<>()).add(layer);
        byName.put(name, layer);
    }

    /** The values to tap. */
    public List<String> inputs() {
        return List.copyOf(byInput.keySet());
    }

    @Override
    public void observe(String tap, Tensor value, long rowLength, BitSet kept) {
        List<Layer> layers = byInput.getOrDefault(tap, List.of());
        int in = layers.getFirst().weight.getFirst().length;
        List<Long> rows = new ArrayList<>();
        long perStretch = rowLength / in;
        long stretches = value.shape().elementCount() / rowLength;
        for (int i = kept.nextSetBit(0); i >= 0 && i < stretches; i = kept.nextSetBit(i + 1)) {
            for (long r = 0; r < perStretch; r++) {
                rows.add(i * perStretch + r);
            }
        }
        int n = Math.min(ROWS, rows.size());
        if (n == 0) {
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            Tensor some = Tensor.allocate(arena, new TensorSpec(tap, DType.F32, Shape.of(n, in)));
            for (int i = 0; i < n; i++) {
                long from = rows.get((int) ((long) i * rows.size() / n)) * in * Float.BYTES;
                MemorySegment.copy(
                        value.bytes(), from, some.bytes(), (long) i * in * Float.BYTES, (long) in * Float.BYTES);
            }
            layers.forEach(layer -> measure(layer, some, arena));
        }
    }

    private void measure(Layer layer, Tensor rows, Arena arena) {
        Tensor rounded = ErrorPrediction.roundedInput(layer.format, rows, layer.statistics, calibrator, arena);
        int in = Math.toIntExact(rows.shape().dim(1));
        for (int r = 0; r < rows.shape().dim(0); r++) {
            float[] x = ErrorPrediction.row(rows, r, in);
            float[] q = ErrorPrediction.row(rounded, r, in);
            for (int out = 0; out < layer.weight.size(); out++) {
                float[] w = layer.weight.get(out);
                float[] v = layer.rounded.get(out);
                double y = 0;
                double byWeight = 0;
                double byInput = 0;
                for (int c = 0; c < in; c++) {
                    y += (double) w[c] * x[c];
                    byWeight += ((double) v[c] - w[c]) * x[c];
                    byInput += v[c] * ((double) q[c] - x[c]);
                }
                layer.signal += y * y;
                layer.ofWeight += byWeight * byWeight;
                layer.ofInput += byInput * byInput;
                layer.error += (byWeight + byInput) * (byWeight + byInput);
            }
            layer.rows++;
        }
    }

    @Override
    public void batchDone(int samples) {
        // sums need nothing at the end of a batch
    }

    /**
     * The errors by name. The parts of weight and input are scaled to the error of both together, which they nearly add up to.
     */
    public Map<String, LinearError> errors() {
        Map<String, LinearError> errors = new LinkedHashMap<>();
        byName.forEach((name, l) -> {
            double count = (double) Math.max(1, l.rows) * l.weight.size();
            double parts = l.ofWeight + l.ofInput;
            double share = parts == 0 ? 1 : l.error / parts;
            errors.put(name, new LinearError(l.signal / count, l.ofWeight * share / count, l.ofInput * share / count));
        });
        return errors;
    }
}
