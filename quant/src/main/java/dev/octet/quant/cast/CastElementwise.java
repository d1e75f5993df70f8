package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Minifloat;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** One element after the other. What a single float becomes is left to the twins. */
abstract sealed class CastElementwise implements Cast permits CastReference, CastScalar {
    /** Gives the code of one float, already divided by its scale. */
    interface Encoder {
        int encode(float x);
    }

    abstract Encoder encoder(Minifloat format, Overflow overflow);

    @Override
    public final void encode(
            DType type, MemorySegment source, float scale, Minifloat format, Overflow overflow, MemorySegment codes) {
        Sizes.requireScale(scale);
        long count = Sizes.count(codes, type, source);
        Encoder encoder = encoder(format, overflow);
        for (long i = 0; i < count; i++) {
            int code = encoder.encode(Floats.get(type, source, i) / scale);
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) code);
        }
    }

    @Override
    public final void encodeEach(
            DType type,
            MemorySegment source,
            MemorySegment scales,
            Minifloat format,
            Overflow overflow,
            MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        Sizes.requireFloats(scales, count);
        Encoder encoder = encoder(format, overflow);
        for (long i = 0; i < count; i++) {
            int code = encoder.encode(Floats.get(type, source, i) / scales.get(Tensor.F32_LE, i * Float.BYTES));
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) code);
        }
    }

    @Override
    public final void decode(Minifloat format, MemorySegment codes, float scale, DType type, MemorySegment target) {
        Sizes.requireScale(scale);
        long count = Sizes.count(codes, type, target);
        float[] values = format.decodeTable();
        for (long i = 0; i < count; i++) {
            Floats.set(type, target, i, values[codeAt(codes, i)] * scale);
        }
    }

    @Override
    public final void decodeEach(
            Minifloat format, MemorySegment codes, MemorySegment scales, DType type, MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        Sizes.requireFloats(scales, count);
        float[] values = format.decodeTable();
        for (long i = 0; i < count; i++) {
            float value = values[codeAt(codes, i)] * scales.get(Tensor.F32_LE, i * Float.BYTES);
            Floats.set(type, target, i, value);
        }
    }

    @Override
    public final float amax(DType type, MemorySegment source) {
        long count = Sizes.count(type, source);
        int bits = 0;
        for (long i = 0; i < count; i++) {
            bits = Math.max(bits, magnitudeBits(Floats.get(type, source, i)));
        }
        return Float.intBitsToFloat(bits);
    }

    @Override
    public final void amaxEach(DType type, MemorySegment source, MemorySegment running) {
        long count = Sizes.count(type, source);
        Sizes.requireFloats(running, count);
        for (long i = 0; i < count; i++) {
            int bits = magnitudeBits(Floats.get(type, source, i));
            long at = i * Float.BYTES;
            running.set(Tensor.I32_LE, at, Math.max(running.get(Tensor.I32_LE, at), bits));
        }
    }

    /** Bits of |x|. As integers they have the order of the magnitudes, then infinity, then NaN. */
    private static int magnitudeBits(float x) {
        return Float.floatToRawIntBits(x) & Rounding.MAGNITUDE;
    }

    private static int codeAt(MemorySegment codes, long index) {
        return codes.get(ValueLayout.JAVA_BYTE, index) & 0xFF;
    }
}
