package dev.octet.converter.plan;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.gptq.BoundedPairs;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.QuantizedTensor;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/** Measures a quantised weight against the one it replaces, element by element, in double precision and without a copy of it. */
final class LayerResults {
    private final Tensor original;
    private final QuantizedTensor quantized;
    private final float @Nullable [] decoded;
    /** A magnitude below this times its scale does not saturate: less than half a step above the largest number rounds to it. */
    private final double limit;

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
        QuantType type = quantized.type();
        this.decoded = type.minifloat().map(Float8Format::decodeTable).orElse(null);
        this.limit = type.maxValue()
                + type.minifloat()
                        .map(f -> Math.scalb(1.0, f.maxExponent() - f.mantissaBits() - 1))
                        .orElse(0.5);
    }

    /** @param integerProducts whether the inputs are integers of 8 bits, too */
    static LayerResult of(
            Node linear, String codes, Tensor original, QuantizedTensor quantized, boolean integerProducts) {
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
                r.nonZero == 0 ? 0 : (double) r.flushed / r.nonZero,
                integerProducts ? BoundedPairs.beyond(quantized, linear.intAttribute("transB", 0) == 1) : 0);
    }

    private void add(long element, long scaleIndex) {
        float scale = quantized.scaleAt(scaleIndex);
        float x = Floats.get(original.dtype(), original.bytes(), element);
        byte code = quantized.codes().get(ValueLayout.JAVA_BYTE, element);
        int zero = quantized.zeroPointAt(scaleIndex);
        double y = (double) (decoded == null ? code - zero : decoded[code & 0xFF]) * scale;
        signal += (double) x * x;
        noise += (x - y) * (x - y);
        saturated += Math.abs(x) > (limit + Math.abs(zero)) * scale ? 1 : 0;
        nonZero += x != 0 ? 1 : 0;
        flushed += x != 0 && y == 0 ? 1 : 0;
        minScale = Math.min(minScale, scale);
        maxScale = Math.max(maxScale, scale);
    }
}
