package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Minifloat;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** The twin that is law: one element after the other through {@link Minifloat}. */
public final class CastReference implements Cast {
    /** A reference twin; it has no state. */
    public CastReference() {}

    @Override
    public String name() {
        return "reference";
    }

    @Override
    public void encode(
            DType type, MemorySegment source, float scale, Minifloat format, Overflow overflow, MemorySegment codes) {
        Sizes.requireScale(scale);
        long count = Sizes.count(codes, type, source);
        for (long i = 0; i < count; i++) {
            float x = Floats.get(type, source, i) / scale;
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) format.encode(x, overflow));
        }
    }

    @Override
    public void encodeEach(
            DType type,
            MemorySegment source,
            MemorySegment scales,
            Minifloat format,
            Overflow overflow,
            MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        Sizes.requireFloats(scales, count);
        for (long i = 0; i < count; i++) {
            float x = Floats.get(type, source, i) / scales.get(Tensor.F32_LE, i * 4);
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) format.encode(x, overflow));
        }
    }

    @Override
    public void decode(Minifloat format, MemorySegment codes, float scale, DType type, MemorySegment target) {
        Sizes.requireScale(scale);
        long count = Sizes.count(codes, type, target);
        for (long i = 0; i < count; i++) {
            float value = format.decode(codeAt(codes, i));
            Floats.set(type, target, i, value * scale);
        }
    }

    @Override
    public void decodeEach(
            Minifloat format, MemorySegment codes, MemorySegment scales, DType type, MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        Sizes.requireFloats(scales, count);
        for (long i = 0; i < count; i++) {
            float value = format.decode(codeAt(codes, i));
            Floats.set(type, target, i, value * scales.get(Tensor.F32_LE, i * 4));
        }
    }

    @Override
    public float amax(DType type, MemorySegment source) {
        long count = Sizes.count(type, source);
        int bits = 0;
        for (long i = 0; i < count; i++) {
            bits = Math.max(bits, magnitudeBits(Floats.get(type, source, i)));
        }
        return Float.intBitsToFloat(bits);
    }

    @Override
    public void amaxEach(DType type, MemorySegment source, MemorySegment running) {
        long count = Sizes.count(type, source);
        Sizes.requireFloats(running, count);
        for (long i = 0; i < count; i++) {
            int bits = magnitudeBits(Floats.get(type, source, i));
            running.set(Tensor.I32_LE, i * 4, Math.max(running.get(Tensor.I32_LE, i * 4), bits));
        }
    }

    /** Bits of |x|. As integers they have the order of the magnitudes, then infinity, then NaN. */
    private static int magnitudeBits(float x) {
        return Float.floatToRawIntBits(x) & 0x7FFFFFFF;
    }

    private static int codeAt(MemorySegment codes, long index) {
        return codes.get(ValueLayout.JAVA_BYTE, index) & 0xFF;
    }
}
