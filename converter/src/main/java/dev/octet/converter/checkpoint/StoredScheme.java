package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredGrids;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.merge.WeightGrid;

/** How the values of a stored weight would be quantised again so that the result lies in the same tensors. */
final class StoredScheme {
    private StoredScheme() {}

    /**
     * The grid of a weight.
     *
     * @param stored where it was found
     * @throws UnsupportedModelException when Octet reads this form but does not write it
     */
    static WeightGrid of(StoredWeight weight, StoredCheckpoint stored, Checkpoint checkpoint) {
        ScaleTensor scale = WeightReader.requireScale(weight);
        ScaleTensor global = weight.globalScale();
        return StoredGrids.of(stored.layout(), checkpoint.config().orElse(null))
                .grid(weight.codes(), weight.granularity(), scale.number(), global == null ? null : global.direction())
                .orElseThrow(() -> new UnsupportedModelException(
                        "Octet reads " + weight.form() + " but does not write it",
                        "weight '" + weight.name() + "'",
                        "give a recipe for the merged weights: --recipe fp8-dynamic --target compressed-tensors"));
    }
}
