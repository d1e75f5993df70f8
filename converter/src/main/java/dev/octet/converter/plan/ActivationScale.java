package dev.octet.converter.plan;

/**
 * The scale of one activation, as chosen from its statistics.
 *
 * @param value the value's name in the canonical graph
 * @param amax largest |x| seen
 * @param clip the |x| that maps to the format's largest number; larger ones saturate
 * @param scale dequantisation multiplier: clip / largest number of the format
 * @param saturatedShare share of the elements seen whose |x| exceeds {@code clip}, 0..1
 */
public record ActivationScale(String value, double amax, double clip, float scale, double saturatedShare) {
    public ActivationScale {
        if (!(scale >= Float.MIN_NORMAL) || scale > Float.MAX_VALUE) {
            throw new IllegalArgumentException("scale of '" + value + "' is not a positive normal number: " + scale);
        }
    }
}
