package dev.octet.converter.checkpoint;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.gptq.BlockScales;
import dev.octet.quant.gptq.GptqOptions;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.ScaleSearch;

/**
 * How weights are rounded: which scales their blocks get, and which codes.
 *
 * @param search of the scales
 * @param compensated whether codes make up for one another's errors by second moments (GPTQ); else each is the nearest
 * @param gptq its options; {@link ScaleSearch#HESSIAN} has the damping from here, too
 * @param moments of the weights' inputs; none where neither needs them
 */
public record WeightRounding(ScaleSearch search, boolean compensated, GptqOptions gptq, InputMoments moments) {
    /** The usual scales and the nearest codes. */
    public static final WeightRounding NEAREST =
            new WeightRounding(ScaleSearch.AMAX, false, GptqOptions.defaults(), InputMoments.NONE);

    /** Whether moments have an influence. */
    public boolean needsMoments() {
        return compensated || search == ScaleSearch.HESSIAN;
    }

    /** {@code nearest} or {@code gptq}. */
    public String name() {
        return compensated ? "gptq" : "nearest";
    }

    /** The scales of a weight's blocks. */
    BlockScales scales(TensorStep.Quantize step) {
        boolean weighted =
                search == ScaleSearch.HESSIAN && step.target().shape().rank() == 2 && moments.has(step.name());
        return new BlockScales(
                step.scheme(),
                search,
                weighted
                        ? moments.diagonal(
                                step.name(), Blocks.cols(step.target().shape()), gptq.damping())
                        : null);
    }

    /** What distinguishes runs that round so from others. */
    public String fingerprint() {
        String how = name();
        if (search != ScaleSearch.AMAX) {
            how += ", scales by " + search.label();
        }
        return needsMoments()
                ? how + ", damping " + gptq.damping() + (gptq.largestFirst() ? ", largest first, " : ", in order, ")
                        + moments.origin()
                : how;
    }

    /**
     * Refuses a scheme whose scales cannot be searched so.
     *
     * @param recipe its name
     * @throws InvalidOptionException when they cannot
     */
    void requirePossible(OperandSpec scheme, String recipe) {
        String where = "--scale-search " + search.label() + " --recipe " + recipe;
        if (search == ScaleSearch.FOUR_OVER_SIX && !scheme.twoLevels()) {
            throw new InvalidOptionException(
                    "four-over-six chooses between 4 and 6, the largest numbers of E2M1, for blocks of nvfp4",
                    where,
                    "give --scale-search mse or hessian, or --recipe nvfp4");
        }
        if (search != ScaleSearch.AMAX && scheme.perTensor()) {
            throw new InvalidOptionException(
                    "recipe " + recipe + " has one scale for all of a weight, which weights that engines fuse share;"
                            + " searched are scales of blocks, groups and channels",
                    where,
                    "leave --scale-search out, or choose a recipe with more scales, such as fp8-dynamic");
        }
    }
}
