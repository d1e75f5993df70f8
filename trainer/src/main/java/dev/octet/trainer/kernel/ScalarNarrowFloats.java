package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import java.lang.foreign.MemorySegment;

/** Scalar implementation. */
final class ScalarNarrowFloats implements NarrowFloats {
    @Override
    public void readBf16(MemorySegment from, long first, float[] to, int at, int n) {
        for (int i = 0; i < n; i++) {
            to[at + i] = BFloat16.toFloat(from.get(Tensor.I16_LE, (first + i) * 2));
        }
    }

    @Override
    public void writeBf16(MemorySegment to, long first, float[] from, int at, int n) {
        for (int i = 0; i < n; i++) {
            to.set(Tensor.I16_LE, (first + i) * 2, BFloat16.fromFloat(from[at + i]));
        }
    }

    @Override
    public void readF16(MemorySegment from, long first, float[] to, int at, int n) {
        for (int i = 0; i < n; i++) {
            to[at + i] = Float.float16ToFloat(from.get(Tensor.I16_LE, (first + i) * 2));
        }
    }

    @Override
    public void writeF16(MemorySegment to, long first, float[] from, int at, int n) {
        for (int i = 0; i < n; i++) {
            to.set(Tensor.I16_LE, (first + i) * 2, Float.floatToFloat16(from[at + i]));
        }
    }
}
