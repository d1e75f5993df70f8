package dev.octet.trainer.op.fp8;

/**
 * How a product of codes adds up. Hopper's FP8 units do it with 14 bits: of 32 products, and of the sum so far, what lies 13 bits or more behind the largest is cut off, and so is
 * the sum of them. Measured on an H200 with cublasLt 13.1, whose results {@link HopperSums} has bit by bit (testdata/golden/fp8-sums); DeepSeek-V3 (arXiv:2412.19437, 3.3.2) describes the same of an H800.
 */
public enum Accumulation {
    /** In F32. */
    F32(0),
    /** As Hopper with fast accumulation, from the first product to the last: Transformer Engine's fprop. */
    HOPPER_FAST(Integer.MAX_VALUE),
    /** As Hopper without: 128 products at a time, which are added in F32: Transformer Engine's dgrad and wgrad, its "split accumulator". */
    HOPPER_SPLIT(128);

    private final int interval;

    Accumulation(int interval) {
        this.interval = interval;
    }

    /** Whether an FP8 unit's sums are imitated. */
    boolean isHopper() {
        return this != F32;
    }

    /** How many products are added up before F32. */
    int interval() {
        return interval;
    }
}
