package dev.octet.quant.number;

import dev.octet.formats.tensor.DType;
import java.util.Arrays;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The type of the codes of a quantised tensor: a small float format, or integers. In memory, an integer takes a byte. */
public enum QuantType {
    /** {@link Float8Format#E4M3FN}. */
    E4M3FN(Float8Format.E4M3FN),
    /** {@link Float8Format#E5M2}. */
    E5M2(Float8Format.E5M2),
    /** {@link Float8Format#E4M3FNUZ}. */
    E4M3FNUZ(Float8Format.E4M3FNUZ),
    /** {@link Float8Format#E5M2FNUZ}. */
    E5M2FNUZ(Float8Format.E5M2FNUZ),
    /** {@link Float8Format#E2M1}, two to a byte. */
    E2M1(Float8Format.E2M1),
    /** Symmetric: {@code real = code * scale}, code in -127 .. 127 as written here, -128 .. 127 as read. */
    INT8(null),
    /** {@code real = (code - zeroPoint) * scale}, code and zero point in -128 .. 127. */
    INT8_ASYMMETRIC(null),
    /** Symmetric: {@code real = code * scale}, code in -8 .. 7. */
    INT4(null),
    /** {@code real = (code - zeroPoint) * scale}, code and zero point in -8 .. 7. */
    INT4_ASYMMETRIC(null);

    private static final int INT4_LOWEST = -8;
    private static final int INT4_HIGHEST = 7;

    /** Half of the fifteen steps between the lowest and the highest integer of four bits. */
    private static final float INT4_HALF = 7.5f;

    private final @Nullable Float8Format minifloat;

    QuantType(@Nullable Float8Format minifloat) {
        this.minifloat = minifloat;
    }

    /** The float format; empty for integers. */
    public Optional<Float8Format> minifloat() {
        return Optional.ofNullable(minifloat);
    }

    /** The tensor element type with these codes. */
    public DType dtype() {
        return minifloat == null ? DType.I8 : minifloat.dtype();
    }

    /** The largest code's value: 448 for E4M3FN, 127 for integers of eight bits. */
    public float maxValue() {
        return switch (this) {
            case INT8, INT8_ASYMMETRIC, INT4, INT4_ASYMMETRIC -> highest();
            case E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ, E2M1 ->
                minifloat().orElseThrow().maxValue();
        };
    }

    /**
     * What the largest magnitude of a block is divided by to give its scale: {@link #maxValue}, but 7.5 for symmetric integers of four bits,
     * as compressed-tensors has it ({@code quantization/utils/helpers.py}, {@code calculate_qparams}). Their sixteen codes then all have a
     * use, and a largest value above zero saturates by half a step.
     */
    public float amaxDivisor() {
        return this == INT4 ? INT4_HALF : maxValue();
    }

    /**
     * The lowest integer that is written.
     *
     * @throws IllegalStateException for floats
     */
    public int lowest() {
        return switch (this) {
            case INT8 -> -Byte.MAX_VALUE;
            case INT8_ASYMMETRIC -> Byte.MIN_VALUE;
            case INT4, INT4_ASYMMETRIC -> INT4_LOWEST;
            case E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ, E2M1 -> throw new IllegalStateException(this + " are floats");
        };
    }

    /**
     * The highest integer.
     *
     * @throws IllegalStateException for floats
     */
    public int highest() {
        return switch (this) {
            case INT8, INT8_ASYMMETRIC -> Byte.MAX_VALUE;
            case INT4, INT4_ASYMMETRIC -> INT4_HIGHEST;
            case E4M3FN, E5M2, E4M3FNUZ, E5M2FNUZ, E2M1 -> throw new IllegalStateException(this + " are floats");
        };
    }

    /** Bits of a code where codes are packed. */
    public int bits() {
        return this == E2M1 || this == INT4 || this == INT4_ASYMMETRIC ? 4 : 8;
    }

    /** Bytes that {@code count} codes take in memory: {@link #E2M1} two to a byte, all others one. */
    public long bytes(long count) {
        return this == E2M1 ? Math.ceilDiv(count, 2L) : count;
    }

    /** The family's name, as people say it: {@code FP8}, {@code INT8}. */
    public String family() {
        return (isInteger() ? "INT" : "FP") + bits();
    }

    /** Whether each scale has a zero point. */
    public boolean hasZeroPoint() {
        return this == INT8_ASYMMETRIC || this == INT4_ASYMMETRIC;
    }

    /** Integers of this width; empty for others than 4 and 8 bits. */
    public static Optional<QuantType> integers(int bits, boolean zeroPoint) {
        return switch (bits) {
            case 8 -> Optional.of(zeroPoint ? INT8_ASYMMETRIC : INT8);
            case 4 -> Optional.of(zeroPoint ? INT4_ASYMMETRIC : INT4);
            default -> Optional.empty();
        };
    }

    /** Whether these are integers. */
    public boolean isInteger() {
        return minifloat == null;
    }

    /** The codes of a float format; E8M0, a format for scales only, has none. */
    public static Optional<QuantType> of(Float8Format format) {
        return Arrays.stream(values()).filter(c -> c.minifloat == format).findFirst();
    }
}
