package dev.octet.quant.recipe;

import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.Granularity.Mx;
import dev.octet.quant.block.Granularity.PerBlock;
import dev.octet.quant.block.Granularity.PerChannel;
import dev.octet.quant.block.Granularity.PerGroup;
import dev.octet.quant.block.Granularity.PerTensor;
import dev.octet.quant.block.Granularity.PerToken;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.Operand.Scaling;
import java.util.List;

/** All recipes. One more recipe is one more constant and its place in {@link #GRAPH} or {@link #CHECKPOINT}. */
public final class Recipes {
    /** Output channels of a matrix, whatever axes stand in front of it. */
    private static final Granularity OUTPUT_CHANNELS = new PerChannel(-2);

    private static final Operand WEIGHT_PER_OUTPUT_CHANNEL = weight(QuantType.E4M3FN, new PerChannel(0));
    private static final Operand INPUT_STATIC = new Operand(QuantType.E4M3FN, new PerTensor(), Scaling.FROM_STATISTICS);

    /** W8A8: E4M3 weights with one scale per output channel, E4M3 activations with one calibrated scale per tensor. */
    public static final Recipe FP8 = new Recipe(
            "fp8",
            "E4M3 weights per output channel, E4M3 activations with calibrated static scales",
            new Gemm(INPUT_STATIC, WEIGHT_PER_OUTPUT_CHANNEL));

    /** W8A8 with one scale per weight: what most training recipes compute with, so their scales can be taken over. */
    public static final Recipe FP8_PER_TENSOR = new Recipe(
            "fp8-per-tensor",
            "E4M3, one scale per weight; activations with calibrated static scales",
            new Gemm(INPUT_STATIC, weight(QuantType.E4M3FN, new PerTensor())));

    /** W8A16/W8A32: E4M3 weights with one scale per output channel, activations untouched; needs no data. */
    public static final Recipe FP8_WEIGHT_ONLY = new Recipe(
            "fp8-weight-only",
            "E4M3 weights per output channel, activations untouched",
            new Gemm(null, WEIGHT_PER_OUTPUT_CHANNEL));

    /** W8A8, everything per tensor; activation scales are static where statistics are given. */
    public static final Recipe CHECKPOINT_FP8 = new Recipe(
            "fp8",
            "E4M3, one scale per weight; activations per tensor, static with --statistics, else dynamic",
            new Gemm(dynamic(QuantType.E4M3FN, new PerTensor()), weight(QuantType.E4M3FN, new PerTensor())));

    /** W8A8: one scale per output channel, one per token at run time. */
    public static final Recipe FP8_DYNAMIC = new Recipe(
            "fp8-dynamic",
            "E4M3, one scale per output channel; activations per token, dynamic",
            new Gemm(dynamic(QuantType.E4M3FN, new PerToken()), weight(QuantType.E4M3FN, OUTPUT_CHANNELS)));

    /** DeepSeek-V3's: 128 x 128 blocks, activations in groups of 128. */
    public static final Recipe FP8_BLOCK = new Recipe(
            "fp8-block",
            "E4M3, one scale per block of 128 x 128; activations per group of 128, dynamic",
            new Gemm(
                    dynamic(QuantType.E4M3FN, new PerGroup(-1, 128)),
                    weight(QuantType.E4M3FN, new PerBlock(128, 128))));

    /** OCP MX v1.0 with E4M3 elements. */
    public static final Recipe MXFP8 = new Recipe(
            "mxfp8",
            "E4M3, one power of two per 32 inputs; activations alike, dynamic",
            new Gemm(dynamic(QuantType.E4M3FN, new Mx(32)), weight(QuantType.E4M3FN, new Mx(32))));

    /** NVIDIA's four-bit format: E4M3 scales of 16 elements under one scale of the tensor. */
    public static final Recipe NVFP4 = new Recipe(
            "nvfp4",
            "E2M1, one E4M3 scale per 16 inputs and one F32 scale per weight; activations alike",
            new Gemm(dynamic(QuantType.E2M1, new PerGroup(-1, 16)), weight(QuantType.E2M1, new PerGroup(-1, 16))));

    /** Integers, the cheap baseline: symmetric, absmax per output channel. */
    public static final Recipe INT8 = new Recipe(
            "int8",
            "INT8 symmetric, absmax per output channel; activations per token, dynamic",
            new Gemm(dynamic(QuantType.INT8, new PerToken()), weight(QuantType.INT8, OUTPUT_CHANNELS)));

    /** Integers with a zero point for each output channel. */
    public static final Recipe INT8_ASYMMETRIC = new Recipe(
            "int8-asymmetric",
            "INT8 with zero points, per output channel; activations untouched",
            new Gemm(null, weight(QuantType.INT8_ASYMMETRIC, OUTPUT_CHANNELS)));

    /** Recipes for models with a graph, in the order help lists them. */
    public static final List<Recipe> GRAPH = List.of(FP8, FP8_PER_TENSOR, FP8_WEIGHT_ONLY);

    /** Recipes for checkpoints of tensors, in the order help lists them. */
    public static final List<Recipe> CHECKPOINT =
            List.of(FP8_DYNAMIC, CHECKPOINT_FP8, FP8_BLOCK, MXFP8, NVFP4, INT8, INT8_ASYMMETRIC);

    private Recipes() {}

    private static Operand weight(QuantType codes, Granularity granularity) {
        return new Operand(codes, granularity, Scaling.FROM_VALUES);
    }

    private static Operand dynamic(QuantType codes, Granularity granularity) {
        return new Operand(codes, granularity, Scaling.DYNAMIC);
    }
}
