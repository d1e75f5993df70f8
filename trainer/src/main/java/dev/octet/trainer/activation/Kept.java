package dev.octet.trainer.activation;

/** How values lie in memory from the last forward step that reads them to the first backward step that does ({@code activations:}). */
public enum Kept {
    /** As they are. */
    AS_THEY_ARE,
    /** Rounded to BF16; F32 values only. */
    BF16,
    /** As E4M3 codes with an F32 scale for each 128 elements along the last axis (COAT, arXiv 2410.19313, section 3.2). */
    FP8
}
