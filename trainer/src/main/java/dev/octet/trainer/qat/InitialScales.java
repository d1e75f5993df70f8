package dev.octet.trainer.qat;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.qat.FakeQuantizer.Place;
import dev.octet.trainer.qat.QuantizerSettings.Variant;
import java.util.Arrays;

/** Where the parameters of quantisers start. */
final class InitialScales {
    /** PACT's α in common code, that of its authors among it. */
    private static final float PACT = 10;

    private InitialScales() {}

    /** A parameter of elements with a range. */
    static float start(QuantizerSettings settings, LinearTensor tensor, Range range, Place place) {
        CodeGrid grid = settings.grid();
        return switch (place) {
            case SCALE -> positive(scale(settings, tensor, range));
            case AMAX, PRE_AMAX ->
                switch (settings.method()) {
                    case PACT -> PACT;
                    case DOREFA -> 1;
                    default -> positive(range.amax());
                };
            case OFFSET -> range.min() - grid.low() * positive(scale(settings, tensor, range));
            case ZERO_POINT ->
                Math.clamp(
                        grid.low()
                                - (float)
                                        Math.rint(Math.min(0, range.min()) / positive(scale(settings, tensor, range))),
                        grid.low(),
                        grid.high());
            case GLOBAL_SCALE -> positive(range.amax() / ((double) grid.high() * Float8Format.E4M3FN.maxValue()));
        };
    }

    private static double scale(QuantizerSettings settings, LinearTensor tensor, Range range) {
        CodeGrid grid = settings.grid();
        double reach = grid.high() - (double) grid.low();
        return switch (settings.method()) {
            case RANGE -> (Math.max(0, range.max()) - (double) Math.min(0, range.min())) / reach;
            case LSQ_PLUS -> {
                if (tensor == LinearTensor.INPUT) {
                    yield (range.max() - (double) range.min()) / reach;
                }
                // 2^(bits - 1), or 2^bits - 1
                double codes = settings.variant() == Variant.CODE ? reach : (reach + 1) / 2;
                yield range.threeDeviations() / codes;
            }
            case DOREFA -> 1 / (double) grid.high();
            // float grids want range, not density
            default ->
                grid instanceof CodeGrid.Floats || settings.variant() == Variant.AMAX
                        ? range.amax() / grid.high()
                        : 2 * range.meanMagnitude() / Math.sqrt(grid.high());
        };
    }

    /** A block of zeros has codes of zero under any scale; 1 is one that every type stores. */
    private static float positive(double scale) {
        return scale > 0 && Double.isFinite(scale) ? (float) scale : 1;
    }

    /** One for each block of a weight. */
    static float[] start(QuantizerSettings settings, float[] elements, Blocks blocks, Place place) {
        Range[] ranges = new Range[Math.toIntExact(blocks.scaleCount())];
        Arrays.fill(ranges, Range.NONE);
        for (int i = 0; i < elements.length; i++) {
            int k = (int) blocks.scaleOf(i);
            ranges[k] = ranges[k].with(elements[i]);
        }
        float[] scales = new float[ranges.length];
        for (int k = 0; k < scales.length; k++) {
            scales[k] = start(settings, LinearTensor.WEIGHT, ranges[k], place);
        }
        return scales;
    }
}
