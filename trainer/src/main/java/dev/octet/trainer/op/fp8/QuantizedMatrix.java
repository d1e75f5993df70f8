package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Parallel;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Objects;

/** A tensor's codes with their scales in host memory, made by the kernels' arithmetic: for statistics and files. */
public final class QuantizedMatrix {
    private final CpuTensor x;
    private final CodedMatrix form;
    private final float[] scales;
    private final MemorySegment codes;

    private QuantizedMatrix(CpuTensor x, CodedMatrix form, float[] quantScales) {
        this.x = x;
        this.form = form;
        this.scales = MatrixCodes.scales(quantScales);
        this.codes = MemorySegment.ofArray(new byte[Math.toIntExact(x.count())]);
        new MatrixCodes(form.blocks(), Parallel.ALONE).encode(x, quantScales, form.format(), codes);
    }

    /**
     * With scales from the tensor's own values.
     *
     * @param form with a rule for its scales
     */
    public static QuantizedMatrix of(CpuTensor x, CodedMatrix form) {
        QuantScaleRule rule = Objects.requireNonNull(form.rule());
        return new QuantizedMatrix(
                x, form, new MatrixCodes(form.blocks(), Parallel.ALONE).quantScales(x, form.format(), rule));
    }

    /** With one multiplier that earlier steps left. */
    public static QuantizedMatrix delayed(CpuTensor x, Float8Format format, float quantScale) {
        return new QuantizedMatrix(
                x, new CodedMatrix(format, QuantizeFp8DelayedCpu.flat(x), null), new float[] {quantScale});
    }

    /** What the codes mean. */
    public CodedMatrix form() {
        return form;
    }

    /** One byte for each element. */
    public MemorySegment codes() {
        return codes;
    }

    /** The dequantisation multipliers of the blocks, row-major over their grid. */
    public float[] scales() {
        return scales.clone();
    }

    /** How well the codes stand for the tensor. */
    public CastFit fit() {
        Fit fit = new Fit(form.format());
        int cols = Math.toIntExact(form.blocks().cols());
        float[] row = new float[cols];
        for (ScaleRuns runs : form.blocks().runs().cut(Math.max(1, cols))) {
            int n = Math.toIntExact(runs.elements());
            x.read(runs.from(), row, 0, n);
            runs.forEachGroup((first, count, scale) -> {
                int from = (int) (first - runs.from());
                for (int i = 0; i < count; i++) {
                    int code = codes.get(ValueLayout.JAVA_BYTE, first + i) & 0xFF;
                    fit.add(row[from + i], code, scales[(int) scale]);
                }
            });
        }
        double smallest = Double.POSITIVE_INFINITY;
        double largest = 0;
        for (float scale : scales) {
            smallest = scale == 0 ? smallest : Math.min(smallest, scale);
            largest = Math.max(largest, scale);
        }
        return new CastFit(x.count(), fit.underflowed, fit.overflowed, fit.squaredError, smallest, largest);
    }

    private static final class Fit {
        private final Float8Format format;
        private final int zero;
        private long underflowed;
        private long overflowed;
        private double squaredError;

        Fit(Float8Format format) {
            this.format = format;
            this.zero = format.encode(0, Overflow.SATURATE);
        }

        void add(float value, int code, float scale) {
            boolean isZero = (code & (format.codeCount() / 2 - 1)) == zero;
            underflowed += isZero && value != 0 ? 1 : 0;
            float bound = format.maxValue() * scale;
            overflowed += value > bound || value < -bound ? 1 : 0;
            double error = (double) (format.decode(code) * scale) - value;
            squaredError += error * error;
        }
    }
}
