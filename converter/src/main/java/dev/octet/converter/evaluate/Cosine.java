package dev.octet.converter.evaluate;

import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;

/** Cosine of the angle between two vectors, computed piece by piece. */
final class Cosine {
    private double xy;
    private double xx;
    private double yy;

    /** Adds elements {@code from .. to - 1} of both. */
    void add(MemorySegment x, MemorySegment y, long from, long to) {
        for (long i = from; i < to; i++) {
            double a = x.get(Tensor.F32_LE, i * 4);
            double b = y.get(Tensor.F32_LE, i * 4);
            xy += a * b;
            xx += a * a;
            yy += b * b;
        }
    }

    /** 1 for two zero vectors (equal), 0 when only one is zero. */
    double value() {
        return xx == 0 && yy == 0 ? 1 : xx == 0 || yy == 0 ? 0 : xy / Math.sqrt(xx) / Math.sqrt(yy);
    }
}
