package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** One element after the other. What a single float becomes is left to the twins. */
abstract sealed class CastElementwise implements ElementCast permits ElementCastReference, ElementCastScalar {
    /** Gives the code of one float, already divided by its scale. */
    interface Encoder {
        int encode(float x);
    }

    abstract Encoder encoder(Float8Format format, Overflow overflow);

    @Override
    public final void encode(
            DType type,
            MemorySegment source,
            float scale,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes) {
        Sizes.requireScale(scale);
        encodeBy(scale, type, source, format, overflow, codes);
    }

    /** As {@link #encode}; the scale may be infinite, which gives zeros. */
    final void encodeBy(
            float scale,
            DType type,
            MemorySegment source,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        Encoder encoder = encoder(format, overflow);
        for (long i = 0; i < count; i++) {
            int code = encoder.encode(Floats.get(type, source, i) / scale);
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) code);
        }
    }

    @Override
    public final void encodeGroups(
            DType type,
            MemorySegment source,
            MemorySegment scales,
            long size,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        Sizes.requireGroups(scales, count, size);
        Encoder encoder = encoder(format, overflow);
        for (long i = 0; i < count; i++) {
            float divisor = Sizes.divisor(scales.get(Tensor.F32_LE, i / size * Float.BYTES));
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) encoder.encode(Floats.get(type, source, i) / divisor));
        }
    }

    @Override
    public final void decode(Float8Format format, MemorySegment codes, float scale, DType type, MemorySegment target) {
        Sizes.requireScale(scale);
        decodeBy(scale, format, codes, type, target);
    }

    /** As {@link #decode}, with any scale. */
    final void decodeBy(float scale, Float8Format format, MemorySegment codes, DType type, MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        float[] values = format.decodeTable();
        for (long i = 0; i < count; i++) {
            Floats.set(type, target, i, values[codeAt(codes, i)] * scale);
        }
    }

    @Override
    public final void decodeGroups(
            Float8Format format,
            MemorySegment codes,
            MemorySegment scales,
            long size,
            DType type,
            MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        Sizes.requireGroups(scales, count, size);
        float[] values = format.decodeTable();
        for (long i = 0; i < count; i++) {
            float scale = scales.get(Tensor.F32_LE, i / size * Float.BYTES);
            Floats.set(type, target, i, values[codeAt(codes, i)] * scale);
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
    public final void amaxGroups(DType type, MemorySegment source, long size, MemorySegment running) {
        long count = Sizes.count(type, source);
        Sizes.requireGroups(running, count, size);
        for (long i = 0; i < count; i++) {
            int bits = magnitudeBits(Floats.get(type, source, i));
            long at = i / size * Float.BYTES;
            running.set(Tensor.I32_LE, at, Math.max(running.get(Tensor.I32_LE, at), bits));
        }
    }

    @Override
    public final void encodeIntegers(
            DType type, MemorySegment source, float scale, int zeroPoint, QuantType integers, MemorySegment codes) {
        long count = Sizes.count(codes, type, source);
        float divisor = Sizes.divisor(scale);
        int lowest = integers.lowest();
        int highest = integers.highest();
        for (long i = 0; i < count; i++) {
            float code = (float) Math.rint(Floats.get(type, source, i) / divisor) + zeroPoint;
            float most = code < highest ? code : highest; // NaN too
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) Math.max(most, lowest));
        }
    }

    @Override
    public final void decodeIntegers(
            MemorySegment codes, float scale, int zeroPoint, DType type, MemorySegment target) {
        long count = Sizes.count(codes, type, target);
        for (long i = 0; i < count; i++) {
            Floats.set(type, target, i, (codes.get(ValueLayout.JAVA_BYTE, i) - zeroPoint) * scale);
        }
    }

    @Override
    public final Range range(DType type, MemorySegment source) {
        long count = Sizes.count(type, source);
        float smallest = 0;
        float largest = 0;
        for (long i = 0; i < count; i++) {
            float x = Floats.get(type, source, i);
            smallest = x < smallest ? x : smallest;
            largest = x > largest ? x : largest;
        }
        return new Range(smallest, largest);
    }

    /** Bits of |x|. As integers they have the order of the magnitudes, then infinity, then NaN. */
    private static int magnitudeBits(float x) {
        return Float.floatToRawIntBits(x) & Rounding.MAGNITUDE;
    }

    private static int codeAt(MemorySegment codes, long index) {
        return codes.get(ValueLayout.JAVA_BYTE, index) & 0xFF;
    }
}
