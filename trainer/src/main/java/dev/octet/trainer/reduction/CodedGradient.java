package dev.octet.trainer.reduction;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;

/**
 * A gradient in E4M3 with one scale.
 *
 * @param codes one a byte
 * @param quantScale what the gradient was multiplied by before it was cast
 * @param scale what codes are multiplied by on the way out: 1 / quantScale, over the number of ranks once they are summed
 */
@SuppressWarnings("ArrayRecordComponent") // passed along, never compared
public record CodedGradient(byte[] codes, float quantScale, float scale) {
    /** The codes of a gradient that is multiplied by {@code quantScale}. */
    public static CodedGradient of(float[] gradient, float quantScale) {
        byte[] codes = new byte[gradient.length];
        for (int i = 0; i < codes.length; i++) {
            codes[i] = (byte) Float8Format.E4M3FN.encode(gradient[i] * quantScale, Overflow.SATURATE);
        }
        return new CodedGradient(codes, quantScale, 1 / quantScale);
    }

    /** The numbers that the codes stand for. */
    public float[] numbers() {
        float[] all = new float[codes.length];
        for (int i = 0; i < all.length; i++) {
            all[i] = Float8Format.E4M3FN.decode(codes[i] & 0xFF) * scale;
        }
        return all;
    }

    /** Cast again with another multiplier; the same codes where that is this one's. */
    CodedGradient requantised(float newQuantScale) {
        return newQuantScale == quantScale ? this : of(numbers(), newQuantScale);
    }
}
