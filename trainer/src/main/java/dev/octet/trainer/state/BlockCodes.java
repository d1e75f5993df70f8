package dev.octet.trainer.state;

import dev.octet.formats.tensor.DType;

/** Number formats of torchao's low-bit optimizers (torchao/optim), each with one scale for a block of neighbouring elements. */
public enum BlockCodes {
    /** E4M3 over {@code max(amax, 1e-12) / 448}; blocks of 256 (subclass_fp8.py). */
    FP8(256, DType.F8_E4M3FN),
    /** 256 quantiles of a dynamic map from -1 to 1 over amax; blocks of 256 (subclass_8bit.py; Dettmers et al., arXiv:2110.02861). */
    INT8(256, DType.U8),
    /** 256 quantiles from 0 to 1, for second moments. */
    UINT8(256, DType.U8),
    /** 16 quantiles from -1 to 1, two in a byte, the first in the high half; blocks of 128 (subclass_4bit.py; Li et al., arXiv:2309.01507). */
    INT4(128, DType.U8),
    /** 16 evenly spaced numbers from 1/16 to 1; no zero. */
    UINT4(128, DType.U8);

    private final int block;
    private final DType stored;

    BlockCodes(int block, DType stored) {
        this.block = block;
        this.stored = stored;
    }

    /** Elements of a block. */
    public int block() {
        return block;
    }

    /** Element type of the stored codes. */
    public DType stored() {
        return stored;
    }

    /** Bits of a code. */
    public int bits() {
        return this == INT4 || this == UINT4 ? 4 : 8;
    }
}
