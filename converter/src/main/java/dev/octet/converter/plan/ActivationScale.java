package dev.octet.converter.plan;

/**
 * The scale of one activation, as chosen from its statistics, and the code of zero.
 *
 * @param value the value's name in the canonical graph
 * @param amax largest |x| seen
 * @param clip the |x| that maps to the format's largest number; larger ones saturate. With a zero point the range ends there or at the
 *     least or greatest value seen, whichever is nearer to zero
 * @param scale dequantisation multiplier: clip / largest number of the format; with a zero point the range / 255
 * @param zeroPoint the code of zero in -128 .. 127; 0 for symmetric codes
 * @param saturatedShare share of the elements seen whose |x| exceeds {@code clip}, 0..1
 */
public record ActivationScale(
        String value, double amax, double clip, float scale, int zeroPoint, double saturatedShare) {
    public ActivationScale {
        if (!(scale >= Float.MIN_NORMAL) || scale > Float.MAX_VALUE) {
            throw new IllegalArgumentException("scale of '" + value + "' is not a positive normal number: " + scale);
        }
    }

    /** One whose zero has the code 0. */
    public ActivationScale(String value, double amax, double clip, float scale, double saturatedShare) {
        this(value, amax, clip, scale, 0, saturatedShare);
    }
}
