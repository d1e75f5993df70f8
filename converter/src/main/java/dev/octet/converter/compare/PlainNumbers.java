package dev.octet.converter.compare;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Float8Format;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** Converts elements that mean a number without a scale to F32. 64-bit elements and 32-bit integers are rounded to nearest. */
final class PlainNumbers {
    private PlainNumbers() {}

    /** Whether elements of {@code type} mean a number without a scale: floats of 16 bits or more, E8M0, integers of whole bytes. */
    static boolean readable(DType type) {
        return switch (type) {
            case BOOL, U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32, F64, F8_E8M0 -> true;
            case F4_E2M1,
                    F6_E2M3,
                    F6_E3M2,
                    U2,
                    I2,
                    U4,
                    I4,
                    F8_E5M2,
                    F8_E4M3FN,
                    F8_E4M3FNUZ,
                    F8_E5M2FNUZ,
                    C64,
                    C128,
                    STRING -> false;
        };
    }

    /** Whether F32 holds every number of {@code type}. */
    static boolean exact(DType type) {
        return switch (type) {
            case U32, I32, U64, I64, F64 -> false;
            default -> readable(type);
        };
    }

    /**
     * Widens {@code count} elements.
     *
     * @param values takes them as F32
     */
    static void widen(DType type, MemorySegment raw, long count, MemorySegment values) {
        if (type == DType.BF16) {
            for (long i = 0; i < count; i++) {
                values.set(Tensor.I32_LE, i * 4, raw.get(Tensor.I16_LE, i * 2) << 16);
            }
            return;
        }
        for (long i = 0; i < count; i++) {
            values.set(Tensor.F32_LE, i * 4, get(type, raw, i));
        }
    }

    /**
     * Element {@code i}.
     *
     * @throws IllegalArgumentException when the type is not {@link #readable}
     */
    static float get(DType type, MemorySegment raw, long i) {
        return switch (type) {
            case BF16, F16, F32 -> Floats.get(type, raw, i);
            case F64 -> (float) raw.get(Tensor.F64_LE, i * 8);
            case F8_E8M0 -> Float8Format.E8M0.decode(raw.get(ValueLayout.JAVA_BYTE, i) & 0xFF);
            case BOOL, U8 -> raw.get(ValueLayout.JAVA_BYTE, i) & 0xFF;
            case I8 -> raw.get(ValueLayout.JAVA_BYTE, i);
            case I16 -> raw.get(Tensor.I16_LE, i * 2);
            case U16 -> raw.get(Tensor.I16_LE, i * 2) & 0xFFFF;
            case I32 -> raw.get(Tensor.I32_LE, i * 4);
            case U32 -> raw.get(Tensor.I32_LE, i * 4) & 0xFFFF_FFFFL;
            case I64 -> raw.get(Tensor.I64_LE, i * 8);
            case U64 -> unsigned(raw.get(Tensor.I64_LE, i * 8));
            case F4_E2M1,
                    F6_E2M3,
                    F6_E3M2,
                    U2,
                    I2,
                    U4,
                    I4,
                    F8_E5M2,
                    F8_E4M3FN,
                    F8_E4M3FNUZ,
                    F8_E5M2FNUZ,
                    C64,
                    C128,
                    STRING -> throw new IllegalArgumentException(type + " elements are not numbers by themselves");
        };
    }

    private static float unsigned(long x) {
        return x >= 0 ? x : (float) ((x >>> 1) | (x & 1)) * 2; // the lowest bit breaks ties
    }
}
