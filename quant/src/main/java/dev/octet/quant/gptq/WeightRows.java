package dev.octet.quant.gptq;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.Floats;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.OptionalLong;

/**
 * A weight of any type and orientation as F32 {@code [out, in]}, in memory that every thread may read.
 *
 * @param floats row-major, one row per output channel
 * @param out output channels
 * @param in input channels
 */
record WeightRows(MemorySegment floats, long out, int in) {
    /**
     * Copies a weight.
     *
     * @param transB whether it is {@code [out, in]}; else {@code [in, out]}
     * @throws IllegalArgumentException when the weight is not F32, BF16 or F16 of rank 2 with at least one input channel
     */
    static WeightRows of(Tensor weight, boolean transB, Arena arena) {
        Shape shape = weight.shape();
        if (weight.dtype() != DType.F32 && weight.dtype() != DType.BF16 && weight.dtype() != DType.F16) {
            throw new IllegalArgumentException(weight.spec() + " is not F32, BF16 or F16");
        }
        if (shape.rank() != 2 || shape.dim(transB ? 1 : 0) < 1 || shape.dim(transB ? 1 : 0) > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(weight.spec() + " is not the matrix of a Linear layer");
        }
        long out = shape.dim(transB ? 0 : 1);
        int in = (int) shape.dim(transB ? 1 : 0);
        MemorySegment floats = arena.allocate(shape.elementCount() * Float.BYTES, 64);
        if (transB && weight.dtype() == DType.F32) {
            floats.copyFrom(weight.bytes());
        } else {
            for (long i = 0; i < shape.elementCount(); i++) {
                long to = transB ? i : i % out * in + i / out;
                floats.set(Tensor.F32_LE, to * Float.BYTES, Floats.get(weight.dtype(), weight.bytes(), i));
            }
        }
        return new WeightRows(floats, out, in);
    }

    /** One output channel. */
    MemorySegment row(long channel) {
        return floats.asSlice(channel * in * Float.BYTES, (long) in * Float.BYTES);
    }

    /** One element. */
    float get(long channel, int input) {
        return floats.get(Tensor.F32_LE, (channel * in + input) * Float.BYTES);
    }

    /** Row-major index, as {@code [out, in]}, of the first element that is NaN or infinite. */
    OptionalLong firstNonFinite() {
        for (long i = 0; i < out * in; i++) {
            if (!Float.isFinite(floats.get(Tensor.F32_LE, i * Float.BYTES))) {
                return OptionalLong.of(i);
            }
        }
        return OptionalLong.empty();
    }
}
