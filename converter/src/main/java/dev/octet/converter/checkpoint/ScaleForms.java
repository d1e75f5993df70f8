package dev.octet.converter.checkpoint;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.number.Minifloat;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.StoredScale;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** Scales between the form they have in a file and F32 multipliers. */
final class ScaleForms {
    private ScaleForms() {}

    /** Reads {@code count} stored scales as multipliers; what is not positive and finite is passed on as it is. */
    static void read(ScaleTensor scale, MemorySegment stored, long count, MemorySegment f32) {
        for (long i = 0; i < count; i++) {
            float value = number(scale.number(), stored, i);
            f32.set(
                    Tensor.F32_LE,
                    i * Float.BYTES,
                    scale.direction() == ScaleTensor.Direction.DIVISOR ? 1 / value : value);
        }
    }

    private static float number(DType number, MemorySegment stored, long index) {
        return number == DType.F8_E4M3FN
                ? Minifloat.E4M3FN.decode(stored.get(ValueLayout.JAVA_BYTE, index) & 0xFF)
                : StoredScale.get(number, stored, index);
    }

    /**
     * Writes {@code count} multipliers in the form of {@code scale}.
     *
     * @return whether all of them are the same number when read again
     */
    static boolean write(ScaleTensor scale, MemorySegment f32, long count, MemorySegment stored) {
        boolean exact = true;
        for (long i = 0; i < count; i++) {
            float multiplier = f32.get(Tensor.F32_LE, i * Float.BYTES);
            float value = scale.direction() == ScaleTensor.Direction.DIVISOR ? 1 / multiplier : multiplier;
            float written;
            if (scale.number() == DType.F8_E4M3FN) {
                int code = Minifloat.E4M3FN.encode(value, Overflow.SATURATE);
                stored.set(ValueLayout.JAVA_BYTE, i, (byte) code);
                written = Minifloat.E4M3FN.decode(code);
            } else {
                written = StoredScale.round(value, scale.number());
                StoredScale.set(scale.number(), stored, i, written);
            }
            exact &= (scale.direction() == ScaleTensor.Direction.DIVISOR ? 1 / written : written) == multiplier;
        }
        return exact;
    }
}
