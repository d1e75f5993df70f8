package dev.octet.quant.gptq;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.ElementCast.Range;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.AffineScale;
import dev.octet.quant.scale.BlockScaleSearch;
import dev.octet.quant.scale.GlobalScale;
import dev.octet.quant.scale.ScaleCandidates;
import dev.octet.quant.scale.ScaleNumbers;
import dev.octet.quant.scale.ScaleSearch;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/**
 * The scales of the blocks of a weight, in the form a file holds them: by the largest magnitudes, or searched. Rows of the weight may come in
 * parts, as long as no block lies in two of them. For use by several threads at once.
 *
 * @param scheme of the weight, with more scales than one
 * @param search how they are chosen
 * @param energies what {@link ScaleSearch#HESSIAN} weights squared errors with, one number for each column; null to weight them alike
 */
@SuppressWarnings("ArrayRecordComponent") // handed over, never compared
public record BlockScales(OperandSpec scheme, ScaleSearch search, double @Nullable [] energies) {
    /** Scales that go through an array at a time: compiling a loop over a segment takes 15 MB. */
    private static final int PART = 1024;

    /** By the largest magnitudes. */
    public static BlockScales usual(OperandSpec scheme) {
        return new BlockScales(scheme, ScaleSearch.AMAX, null);
    }

    /**
     * Values whose blocks need scales.
     *
     * @param type F32, BF16 or F16
     * @param floats finite
     * @param runs the elements by blocks
     * @param scales F32, the largest magnitude of each block; becomes the multipliers that readers see
     */
    public record Values(DType type, MemorySegment floats, ScaleRuns runs, MemorySegment scales) {}

    /** Scales without a second level above them. */
    public void oneLevel(Values values) {
        if (search != ScaleSearch.AMAX) {
            search(values, scheme.candidates(), null);
            return;
        }
        MemorySegment scales = values.scales;
        float[] part = new float[PART];
        long count = scales.byteSize() / Float.BYTES;
        for (long at = 0; at < count; at += PART) {
            int length = (int) Math.min(PART, count - at);
            MemorySegment.copy(scales, Tensor.F32_LE, at * Float.BYTES, part, 0, length);
            for (int i = 0; i < length; i++) {
                part[i] = scheme.storedScale(part[i]);
            }
            MemorySegment.copy(part, 0, scales, Tensor.F32_LE, at * Float.BYTES, length);
        }
    }

    /**
     * The scale of a whole weight under which those of its blocks lie.
     *
     * @param amax largest magnitude of the weight, and of those that share the scale
     */
    public GlobalScale global(float amax, GlobalScale.Direction direction) {
        return search == ScaleSearch.FOUR_OVER_SIX
                ? GlobalScale.of(amax, scheme.format(), direction, ScaleCandidates.FourOverSix.LARGEST_BLOCK)
                : GlobalScale.of(amax, scheme.format(), direction);
    }

    /**
     * Scales below that of the whole weight.
     *
     * @param stored takes the E4M3 codes
     */
    public void twoLevels(Values values, GlobalScale global, MemorySegment stored) {
        switch (search) {
            case AMAX -> global.blocks(values.scales, values.runs.scaleCount(), scheme.format(), stored);
            case MSE, HESSIAN -> search(values, new ScaleCandidates.Neighbours(global, scheme.format()), stored);
            case FOUR_OVER_SIX -> search(values, new ScaleCandidates.FourOverSix(global), stored);
        }
    }

    /**
     * Scales and zero points.
     *
     * @param values {@code scales} takes the multipliers, whatever they were
     * @param ranges of the blocks, widened to hold zero
     * @param zeroPoints takes an I8 for each block
     */
    public void affine(Values values, Range[] ranges, MemorySegment zeroPoints) {
        if (search == ScaleSearch.AMAX) {
            AffineScale.of(ranges, scheme.type(), scheme.scaleType(), values.scales, zeroPoints);
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            search(values, arena).findAffine(ranges, scheme.scaleType(), values.scales, zeroPoints);
        }
    }

    /** @param e4m3 takes the codes of scales below another; null where there is none */
    private void search(Values values, ScaleCandidates candidates, @Nullable MemorySegment e4m3) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment stored = arena.allocate(values.scales.byteSize(), 64).copyFrom(values.scales);
            search(values, arena).find(candidates, stored, values.scales);
            if (e4m3 != null) {
                ScaleNumbers.write(DType.F8_E4M3FN, stored, values.runs.scaleCount(), e4m3);
            }
        }
    }

    private BlockScaleSearch search(Values values, Arena arena) {
        return new BlockScaleSearch(scheme.type(), values.type, values.floats, values.runs, energies, arena);
    }
}
