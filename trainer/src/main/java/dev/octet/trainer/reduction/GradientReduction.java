package dev.octet.trainer.reduction;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How the gradients of data-parallel ranks are averaged: in F32, or as E4M3 codes in one of MS-AMP's ways, which differ in the scale that the ranks agree
 * on.
 */
public enum GradientReduction {
    /**
     * Each rank scales its gradient by its own amax; the smallest scale is shared, and codes made with another one are made again (msamp/megatron/optimizer/distrib_optimizer.py;
     * FP8-LM, arXiv:2310.18313, equations 4 to 6).
     */
    MIN_SCALE("min-scale"),
    /** The largest amax of all ranks gives the scale, times {@code 1 / √N} (msamp/nn/distributed.py). */
    DDP("ddp"),
    /** The largest amax of all ranks gives the scale; a sum of N ranks may saturate (msamp/common/tensor/tensor_dist.py, {@code all_reduce_avg}). */
    LEGACY("legacy"),
    /**
     * The same numbers, reduced to the rank that owns the tensor, the only one to have the average (msamp/deepspeed/runtime/zero/fp8_stage_1_and_2.py, {@code
     * fp8_average_tensor}).
     */
    ZERO("zero"),
    /** In F32, as torch's DistributedDataParallel does; nothing is cast. */
    F32("f32"),
    /** In F32 from GPU to GPU by NCCL, which chooses the order of summation; each GPU is a process's. */
    NCCL("nccl");

    private final String text;

    GradientReduction(String text) {
        this.text = text;
    }

    /** Its name in configurations. */
    public String text() {
        return text;
    }

    /** All by their names in configurations. */
    public static Map<String, GradientReduction> byName() {
        Map<String, GradientReduction> all = new LinkedHashMap<>();
        for (GradientReduction r : values()) {
            all.put(r.text, r);
        }
        return Collections.unmodifiableMap(all);
    }

    /** Whether gradients of matrices are averaged as codes. */
    public boolean isCoded() {
        return this != F32 && this != NCCL;
    }

    /** What each rank's scale is multiplied by where no {@link AutoScale} does it: room for the sum. */
    public float preScale(int ranks) {
        return this == DDP ? (float) (1 / Math.sqrt(ranks)) : 1;
    }

    /** Whether ranks share the smallest of their scales; the others share the largest of their amaxes. */
    public boolean sharesScales() {
        return this == MIN_SCALE;
    }

    /** Whether only the rank that owns a tensor has its average. */
    public boolean hasOwner() {
        return this == ZERO;
    }
}
