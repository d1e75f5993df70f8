package dev.octet.trainer.qat;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.CodeGrid;
import dev.octet.trainer.qat.Quantizer.Place;
import java.util.Arrays;

/** Where learned scales start. */
final class InitialScales {
    private InitialScales() {}

    /**
     * The scale of elements with a range, as a method starts it: LSQ's 2 · mean |x| / √high for integers; for float grids amax / high, since these want range, not density.
     *
     * @return at least the smallest step
     */
    static float start(QuantizerSettings settings, Range range, Place place) {
        CodeGrid grid = settings.grid();
        double scale = grid instanceof CodeGrid.Floats
                ? range.amax() / grid.high()
                : 2 * range.meanMagnitude() / Math.sqrt(grid.high());
        // a block of zeros has codes of zero under any scale; 1 is one that every type stores
        return scale > 0 && Double.isFinite(scale) ? (float) scale : 1;
    }

    /** One for each block of a tensor. */
    static float[] start(QuantizerSettings settings, float[] elements, Blocks blocks, Place place) {
        Range[] ranges = new Range[Math.toIntExact(blocks.scaleCount())];
        Arrays.fill(ranges, Range.NONE);
        for (int i = 0; i < elements.length; i++) {
            int k = (int) blocks.scaleOf(i);
            ranges[k] = ranges[k].with(elements[i]);
        }
        float[] scales = new float[ranges.length];
        for (int k = 0; k < scales.length; k++) {
            scales[k] = start(settings, ranges[k], place);
        }
        return scales;
    }
}
