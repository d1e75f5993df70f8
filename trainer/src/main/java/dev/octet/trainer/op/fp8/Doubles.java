package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.QuantScaleRule;

/**
 * The arithmetic of the reference twins, element by element. Codes are held as the numbers they stand for; whatever decides their bits
 * (amax, scale, product, rounding) is FP32, as the recipes have it.
 */
final class Doubles {
    private Doubles() {}

    static float[] toFloats(double[] x) {
        float[] all = new float[x.length];
        for (int i = 0; i < x.length; i++) {
            all[i] = (float) x[i];
        }
        return all;
    }

    /** Largest magnitude of each block. */
    static float[] amax(double[] x, Blocks blocks, boolean seesNaN) {
        float[] amax = new float[Math.toIntExact(blocks.scaleCount())];
        for (int i = 0; i < x.length; i++) {
            float magnitude = Math.abs((float) x[i]);
            int at = (int) blocks.scaleOf(i);
            if (magnitude > amax[at] || (seesNaN && Float.isNaN(magnitude))) {
                amax[at] = magnitude;
            }
        }
        return amax;
    }

    /** Multipliers of each block from its values. */
    static float[] quantScales(double[] x, CodedMatrix form, QuantScaleRule rule, DType type) {
        float[] scales = amax(x, form.blocks(), rule.seesNaN());
        for (int i = 0; i < scales.length; i++) {
            scales[i] = rule.quantScale(scales[i], form.format(), type);
        }
        return scales;
    }

    /** What the codes of {@code x} stand for. */
    static double[] encode(double[] x, CodedMatrix form, float[] quantScales) {
        Float8Format format = form.format();
        double[] codes = new double[x.length];
        for (int i = 0; i < x.length; i++) {
            float scaled = (float) x[i] * quantScales[(int) form.blocks().scaleOf(i)];
            codes[i] = format.decode(format.encode(scaled, Overflow.SATURATE));
        }
        return codes;
    }

    /** Codes times scales, exact. */
    static double[] decode(double[] codes, Blocks blocks, double[] scales) {
        double[] x = new double[codes.length];
        for (int i = 0; i < x.length; i++) {
            x[i] = codes[i] * scales[(int) blocks.scaleOf(i)];
        }
        return x;
    }

    static double[] scales(float[] quantScales) {
        double[] scales = new double[quantScales.length];
        for (int i = 0; i < scales.length; i++) {
            scales[i] = QuantScaleRule.scale(quantScales[i]);
        }
        return scales;
    }

    /** Rounded to FP32, then to {@code type}. */
    static double round(double x, DType type) {
        return switch (type) {
            case BF16 -> BFloat16.toFloat(BFloat16.fromFloat((float) x));
            case F16 -> Float.float16ToFloat(Float.floatToFloat16((float) x));
            default -> (float) x;
        };
    }
}
