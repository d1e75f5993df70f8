package dev.octet.trainer.op.fp8;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;

/**
 * How well codes stand for a tensor, by Transformer Engine's definitions (debug/features/utils/stats_computation.py at commit d0067d0).
 *
 * @param elements of the tensor
 * @param underflowed elements other than 0 whose code is 0 or -0
 * @param overflowed elements beyond the largest number times their scale
 * @param squaredError sum of (code · scale - x)², in F64
 * @param smallestScale smallest scale (dequantisation multiplier) above 0; infinite when there is none
 * @param largestScale largest scale
 */
public record CastFit(
        long elements,
        long underflowed,
        long overflowed,
        double squaredError,
        double smallestScale,
        double largestScale) {
    /** Both together: of another micro-batch. */
    public CastFit and(CastFit other) {
        return new CastFit(
                elements + other.elements,
                underflowed + other.underflowed,
                overflowed + other.overflowed,
                squaredError + other.squaredError,
                Math.min(smallestScale, other.smallestScale),
                Math.max(largestScale, other.largestScale));
    }

    /** Tells another rank; {@link #read} understands it. */
    public void write(DataOutput out) throws IOException {
        out.writeLong(elements);
        out.writeLong(underflowed);
        out.writeLong(overflowed);
        out.writeDouble(squaredError);
        out.writeDouble(smallestScale);
        out.writeDouble(largestScale);
    }

    /** What another rank has told. */
    public static CastFit read(DataInput in) throws IOException {
        return new CastFit(
                in.readLong(), in.readLong(), in.readLong(), in.readDouble(), in.readDouble(), in.readDouble());
    }
}
