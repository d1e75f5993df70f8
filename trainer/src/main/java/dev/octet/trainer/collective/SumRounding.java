package dev.octet.trainer.collective;

/** Where a sum of ranks' numbers in few bits is rounded, always to the nearest, ties to even. F32 has only one way: each addition rounds to F32. */
public enum SumRounding {
    /** Numbers are added in F32, and the sum is rounded once to their type. */
    ONCE,
    /**
     * Each addition is rounded to the type, as NCCL's are (src/device/reduce_kernel.h); FP8 saturates each time. A sum of N ranks has N - 1 roundings, and an average one
     * more for each rank: NCCL multiplies before it adds.
     */
    EVERY_HOP
}
