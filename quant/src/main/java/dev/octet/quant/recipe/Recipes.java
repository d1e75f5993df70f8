package dev.octet.quant.recipe;

import dev.octet.quant.number.Minifloat;
import dev.octet.quant.scale.Granularity;
import java.util.List;
import java.util.Optional;

/** All recipes. One more recipe is one more constant and its place in {@link #ALL}. */
public final class Recipes {
    private static final Operand WEIGHT_PER_OUTPUT_CHANNEL =
            new Operand(Minifloat.E4M3FN, new Granularity.PerChannel(0), Operand.Scaling.FROM_VALUES);
    private static final Operand INPUT_STATIC =
            new Operand(Minifloat.E4M3FN, new Granularity.PerTensor(), Operand.Scaling.FROM_STATISTICS);

    /** W8A8: E4M3 weights with one scale per output channel, E4M3 activations with one calibrated scale per tensor. */
    public static final Recipe FP8 = new Recipe(
            "fp8",
            "E4M3 weights per output channel, E4M3 activations with calibrated static scales",
            new Gemm(INPUT_STATIC, WEIGHT_PER_OUTPUT_CHANNEL));

    /** W8A16/W8A32: E4M3 weights with one scale per output channel, activations untouched; needs no data. */
    public static final Recipe FP8_WEIGHT_ONLY = new Recipe(
            "fp8-weight-only",
            "E4M3 weights per output channel, activations untouched",
            new Gemm(null, WEIGHT_PER_OUTPUT_CHANNEL));

    /** Every recipe, in the order help lists them. */
    public static final List<Recipe> ALL = List.of(FP8, FP8_WEIGHT_ONLY);

    private Recipes() {}

    /** The recipe users call {@code name}. */
    public static Optional<Recipe> named(String name) {
        return ALL.stream().filter(r -> r.name().equals(name)).findFirst();
    }
}
