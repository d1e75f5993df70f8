package dev.octet.converter.evaluate;

import dev.octet.formats.tensor.Tensor;
import java.io.Serializable;
import java.lang.foreign.MemorySegment;

/** Running sums over pairs of F32 elements. A NaN on either side makes every result NaN, so that the error shows. */
final class OutputDifference implements Serializable {
    private static final long serialVersionUID = 1;

    private long elements;
    private double signal;
    private double noise;
    private double maxAbs;

    /** Adds elements {@code from .. to - 1} of both. */
    void add(MemorySegment reference, MemorySegment candidate, long from, long to) {
        for (long i = from; i < to; i++) {
            double r = reference.get(Tensor.F32_LE, i * 4);
            double c = candidate.get(Tensor.F32_LE, i * 4);
            double d = r == c ? 0 : r - c; // equal infinities (masked scores) do not differ
            signal += Double.isInfinite(r) ? 0 : r * r;
            noise += d * d;
            maxAbs = Math.max(maxAbs, Math.abs(d));
        }
        elements += to - from;
    }

    /** Adds the sums over other elements. */
    void plus(OutputDifference more) {
        elements += more.elements;
        signal += more.signal;
        noise += more.noise;
        maxAbs = Math.max(maxAbs, more.maxAbs);
    }

    long elements() {
        return elements;
    }

    double maxAbs() {
        return maxAbs;
    }

    /** 10 log10(signal / noise); infinite without noise. */
    double sqnrDb() {
        return noise == 0 ? Double.POSITIVE_INFINITY : 10 * Math.log10(signal / noise);
    }
}
