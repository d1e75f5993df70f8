package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import java.lang.foreign.MemorySegment;

/**
 * Bulk casts between floats and codes. {@link #best()} is the entry; all twins give the same bytes.
 *
 * <p><b>Scale.</b> Always the dequantisation multiplier, {@code real = code * scale}. On the way in the float is <em>divided</em> by
 * it in FP32 (round to nearest even), then rounded to the format: {@code code = round(fp32(x) / scale)}. That is what ONNX
 * {@code QuantizeLinear} does, and it is not the same as multiplying by the FP32 reciprocal unless the scale is a power of two. On the
 * way out the product of code and scale is rounded once to FP32 and, for BF16 and F16, from there to the target. Scales must be
 * positive and finite; casts do not check what they read from memory.
 *
 * <p><b>Memory.</b> Little-endian, any alignment, native or on the heap; the number of elements follows from the segment of codes:
 * one byte each for every format, {@link Float8Format#E2M1} included (its pairs are packed by {@link Nibbles}). Sources and targets
 * must not overlap.
 *
 * <p>All methods throw {@link IllegalArgumentException} when a float type is not F32, BF16 or F16, when the segments' sizes
 * disagree, or when a scale is not positive and finite.
 */
public sealed interface ElementCast permits CastElementwise, CastArrays, ElementCastVector {
    /** The twin for this JVM, chosen once: {@link ElementCastVector} where its module was asked for and vectors are wide, else {@link CastArrays}. */
    static ElementCast best() {
        return BestCast.INSTANCE;
    }

    /** How the twin is called in logs and results. */
    String name();

    /**
     * Encodes with one scale.
     *
     * @param type F32, BF16 or F16: the type of {@code source}
     * @param source as many floats as {@code codes} has bytes
     * @param scale the dequantisation multiplier
     * @param codes takes one code per byte
     */
    void encode(
            DType type, MemorySegment source, float scale, Float8Format format, Overflow overflow, MemorySegment codes);

    /**
     * Decodes with one scale.
     *
     * @param codes one code per byte
     * @param scale the dequantisation multiplier
     * @param type F32, BF16 or F16: the type of {@code target}
     * @param target takes as many floats as {@code codes} has bytes
     */
    void decode(Float8Format format, MemorySegment codes, float scale, DType type, MemorySegment target);

    /**
     * The largest magnitude, exact; 0 for no elements, NaN when any element is NaN, else infinity when any is infinite.
     *
     * @param source a whole number of floats of {@code type}
     */
    float amax(DType type, MemorySegment source);

    /**
     * Encodes with a scale for each group of {@code size} neighbouring elements; the last group may be shorter. Scales may be zero: their
     * elements become zeros.
     *
     * @param scales one F32 for each group
     * @param size elements of a group, at least 1
     */
    void encodeGroups(
            DType type,
            MemorySegment source,
            MemorySegment scales,
            long size,
            Float8Format format,
            Overflow overflow,
            MemorySegment codes);

    /** Decodes with a scale, any float, for each group of {@code size} neighbouring elements; the last group may be shorter. */
    void decodeGroups(
            Float8Format format,
            MemorySegment codes,
            MemorySegment scales,
            long size,
            DType type,
            MemorySegment target);

    /**
     * Raises running largest magnitudes, one for each group of {@code size} neighbouring elements, with the order of {@link #amax}: finite,
     * infinity, NaN. The last group may be shorter; groups of one element are as fast as longer ones.
     *
     * @param running one F32 for each group, none negative; read and written
     */
    void amaxGroups(DType type, MemorySegment source, long size, MemorySegment running);

    /**
     * Encodes as integers: the FP32 quotient {@code x / scale} rounded to the nearest integer, ties to even, plus {@code zeroPoint}, cut to
     * {@link QuantType#lowest} .. {@link QuantType#highest}. NaN becomes the highest; a scale of zero gives zero points.
     *
     * <p>That is ONNX {@code QuantizeLinear}. compressed-tensors adds the zero point before it rounds, which differs where the sum is a tie.
     *
     * @param zeroPoint one of the integers; 0 for symmetric ones
     * @param integers integers of 4 or 8 bits
     * @param codes takes one byte per element, also of four bits
     * @throws IllegalStateException when {@code integers} are floats
     */
    void encodeIntegers(
            DType type, MemorySegment source, float scale, int zeroPoint, QuantType integers, MemorySegment codes);

    /** Decodes integers, one to a byte: {@code (code - zeroPoint) * scale}, rounded to FP32, then to {@code type}. */
    void decodeIntegers(MemorySegment codes, float scale, int zeroPoint, DType type, MemorySegment target);

    /**
     * Two floats, one at most and one at least zero.
     *
     * @param smallest the smaller end
     * @param largest the larger end
     */
    record Range(float smallest, float largest) {
        /** No range. */
        public static final Range ZERO = new Range(0, 0);

        /** The range widened to hold {@code x}; NaN widens nothing. */
        public Range with(float x) {
            return new Range(x < smallest ? x : smallest, x > largest ? x : largest);
        }

        /** The range widened to hold another. */
        public Range with(Range other) {
            return with(other.smallest).with(other.largest);
        }
    }

    /** The smallest range that holds all elements and zero; NaN is left out. */
    Range range(DType type, MemorySegment source);
}
