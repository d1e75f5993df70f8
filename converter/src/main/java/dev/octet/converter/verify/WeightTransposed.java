package dev.octet.converter.verify;

/** Square grids of scales that are transposed. */
final class WeightTransposed extends WeightRule {
    WeightTransposed() {
        super(
                "weight-transposed",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "The grid of block scales has the orientation of its weight; of a square one nothing but the values"
                        + " tells.",
                "transpose the scales",
                "vllm-project/vllm#36297, huggingface/transformers:src/transformers/integrations/finegrained_fp8.py");
    }

    @Override
    public boolean needsOriginal() {
        return true;
    }

    @Override
    void check(WeightFacts weight, CheckpointSubject subject, Findings findings) {
        WeightFacts.Comparison c = weight.comparison();
        if (c != null && c.isTransposed()) {
            findings.add(
                    this,
                    "the grid of scales is transposed",
                    weight.weight().name(),
                    WeightDiffers.errors(c.asStored(), c.transposed()));
        }
    }
}
