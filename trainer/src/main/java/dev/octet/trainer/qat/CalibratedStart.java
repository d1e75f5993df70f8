package dev.octet.trainer.qat;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.scale.AffineScale;
import dev.octet.quant.statistics.TensorStatistics;
import dev.octet.trainer.qat.FakeQuantizer.Place;

/**
 * Where the parameters of an input's quantiser start after calibration: the scale, and the zero point, that a file quantised with the same statistics has. What is an
 * amax here is the calibrator's clip.
 *
 * @param settings of the input
 * @param clip the magnitude where codes saturate
 * @param least the smallest number that codes are to cover
 * @param most the largest one
 */
record CalibratedStart(QuantizerSettings settings, double clip, float least, float most) {
    static CalibratedStart of(QuantizerSettings settings, TensorStatistics seen, Calibrator calibrator) {
        double clip = calibrator.clip(seen, type(settings));
        return new CalibratedStart(
                settings, clip, (float) Math.max(seen.min(), -clip), (float) Math.min(seen.max(), clip));
    }

    /** The codes as files have them; calibrators that look at them are refused for others. */
    private static QuantType type(QuantizerSettings settings) {
        return switch (settings.grid()) {
            case CodeGrid.Floats(Float8Format format) -> QuantType.of(format).orElseThrow();
            case CodeGrid.Integers codes ->
                QuantType.integers(codes.bits(), moves(settings) || codes.least() == 0)
                        .orElse(QuantType.INT8);
            case CodeGrid.Signs _ -> QuantType.INT8;
        };
    }

    /** Whether zero has a code, or a number, of its own. */
    private static boolean moves(QuantizerSettings settings) {
        return settings.method() == Method.RANGE || settings.method() == Method.LSQ_PLUS;
    }

    float of(Place place) {
        CodeGrid grid = settings.grid();
        return switch (place) {
            case SCALE -> scale();
            case AMAX, PRE_AMAX -> (float) clip;
            case OFFSET -> least - grid.low() * scale();
            case ZERO_POINT -> {
                CodeGrid.Integers codes = (CodeGrid.Integers) grid;
                yield affine(codes).zeroPoint() + codes.least() - signed(codes).least();
            }
            case GLOBAL_SCALE -> normal(clip / ((double) grid.high() * Float8Format.E4M3FN.maxValue()));
        };
    }

    private float scale() {
        CodeGrid grid = settings.grid();
        return switch (settings.method()) {
            case RANGE -> affine((CodeGrid.Integers) grid).scale();
            case LSQ_PLUS -> normal(((double) most - least) / ((double) grid.high() - grid.low()));
            default -> normal((grid.low() == 0 ? Math.max(0, most) : clip) / grid.high());
        };
    }

    private AffineScale affine(CodeGrid.Integers codes) {
        ElementCast.Range range = ElementCast.Range.ZERO.with(least).with(most);
        return AffineScale.of(range, signed(codes), DType.F32);
    }

    /** The same number of codes around zero, as files have them. */
    private static CodeGrid.Integers signed(CodeGrid.Integers codes) {
        return codes.least() == 0 ? CodeGrid.Integers.signed(codes.bits()) : codes;
    }

    private static float normal(double scale) {
        return Math.max((float) scale, Float.MIN_NORMAL);
    }
}
