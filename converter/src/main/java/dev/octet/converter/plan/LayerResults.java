package dev.octet.converter.plan;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.QuantizedTensor;
import java.lang.foreign.ValueLayout;

/** Measures a quantised weight against the one it replaces, element by element, in double precision and without a copy of it. */
final class LayerResults {
    private final Tensor original;
    private final QuantizedTensor quantized;
    private final float[] decoded;
    private double signal;
    private double noise;
    private long saturated;
    private long flushed;
    private long nonZero;
    private double minScale = Double.POSITIVE_INFINITY;
    private double maxScale;

    private LayerResults(Tensor original, QuantizedTensor quantized) {
        this.original = original;
        this.quantized = quantized;
        this.decoded = quantized.format().decodeTable();
    }

    static LayerResult of(Node linear, String codes, Tensor original, QuantizedTensor quantized) {
        LayerResults r = new LayerResults(original, quantized);
        Blocks.of(original.shape(), quantized.granularity()).runs().forEachGroup((first, count, scale) -> {
            for (long i = first; i < first + count; i++) {
                r.add(i, scale);
            }
        });
        double sqnr = r.noise == 0 ? Double.POSITIVE_INFINITY : 10 * Math.log10(r.signal / r.noise);
        return new LayerResult(
                linear.id(),
                linear.output(),
                codes,
                sqnr,
                r.minScale,
                r.maxScale,
                (double) r.saturated / original.shape().elementCount(),
                r.nonZero == 0 ? 0 : (double) r.flushed / r.nonZero);
    }

    private void add(long element, long scaleIndex) {
        Float8Format format = quantized.format();
        float scale = quantized.scaleAt(scaleIndex);
        float x = Floats.get(original.dtype(), original.bytes(), element);
        int code = quantized.codes().get(ValueLayout.JAVA_BYTE, element) & 0xFF;
        double y = (double) decoded[code] * scale;
        signal += (double) x * x;
        noise += (x - y) * (x - y);
        // A value less than half a step above the largest number still rounds to it; beyond that the cast saturates.
        double halfStep = Math.scalb(1.0, format.maxExponent() - format.mantissaBits() - 1);
        double limit = (format.maxValue() + halfStep) * scale;
        saturated += Math.abs(x) > limit ? 1 : 0;
        nonZero += x != 0 ? 1 : 0;
        flushed += x != 0 && y == 0 ? 1 : 0;
        minScale = Math.min(minScale, scale);
        maxScale = Math.max(maxScale, scale);
    }
}
