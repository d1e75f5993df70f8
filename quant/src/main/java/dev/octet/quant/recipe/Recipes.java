package dev.octet.quant.recipe;

import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.Granularity.Mx;
import dev.octet.quant.block.Granularity.PerBlock;
import dev.octet.quant.block.Granularity.PerChannel;
import dev.octet.quant.block.Granularity.PerGroup;
import dev.octet.quant.block.Granularity.PerTensor;
import dev.octet.quant.block.Granularity.PerToken;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * All recipes. One more for conversion is one more constant and its place in {@link #GRAPH} or {@link #CHECKPOINT}; one more for training is
 * one more record of {@link TrainingRecipe} and its place in {@link #TRAINING}.
 */
public final class Recipes {
    private static final OperandSpec WEIGHT_PER_TENSOR = OperandSpec.fromValues(QuantType.E4M3FN, new PerTensor());

    /** One scale for each output channel of a matrix, whatever axes stand in front of it. */
    private static final OperandSpec WEIGHT_PER_CHANNEL = OperandSpec.fromValues(QuantType.E4M3FN, new PerChannel(-2));

    private static final OperandSpec INPUT_STATIC =
            new OperandSpec(QuantType.E4M3FN, new PerTensor(), new Scaling.FromStatistics());

    /** W8A8: E4M3 weights with one scale per output channel, E4M3 activations with one calibrated scale per tensor. */
    public static final Recipe FP8_PER_CHANNEL = recipe("fp8-per-channel", INPUT_STATIC, WEIGHT_PER_CHANNEL);

    /**
     * W8A8 with one scale per weight: what most training recipes compute with, so their scales can be taken over. Scales of activations are
     * static; in checkpoints without statistics consumers find them at run time.
     */
    public static final Recipe FP8_PER_TENSOR = recipe("fp8-per-tensor", INPUT_STATIC, WEIGHT_PER_TENSOR);

    /** W8A16/W8A32: E4M3 weights with one scale per output channel, activations untouched; needs no data. */
    public static final Recipe FP8_WEIGHT_ONLY = recipe("fp8-weight-only", null, WEIGHT_PER_CHANNEL);

    /** W8A8: one scale per output channel, one per token at run time. */
    public static final Recipe FP8_DYNAMIC =
            recipe("fp8-dynamic", dynamic(QuantType.E4M3FN, new PerToken()), WEIGHT_PER_CHANNEL);

    /** DeepSeek-V3's: 128 x 128 blocks, activations in groups of 128. */
    public static final Recipe FP8_BLOCK = recipe(
            "fp8-block",
            dynamic(QuantType.E4M3FN, new PerGroup(-1, 128)),
            OperandSpec.fromValues(QuantType.E4M3FN, new PerBlock(128, 128)));

    /** OCP MX v1.0 with E4M3 elements: one power of two per 32 inputs, activations alike. */
    public static final Recipe MXFP8 = recipe(
            "mxfp8", dynamic(QuantType.E4M3FN, new Mx(32)), OperandSpec.fromValues(QuantType.E4M3FN, new Mx(32)));

    /** NVIDIA's four-bit format: E4M3 scales of 16 elements under one scale of the tensor. */
    public static final Recipe NVFP4 = recipe(
            "nvfp4",
            dynamic(QuantType.E2M1, new PerGroup(-1, 16)),
            OperandSpec.fromValues(QuantType.E2M1, new PerGroup(-1, 16)));

    /** Integers, the cheap baseline: symmetric, absmax per output channel, one scale per token at run time. */
    public static final Recipe INT8 = recipe(
            "int8",
            dynamic(QuantType.INT8, new PerToken()),
            OperandSpec.fromValues(QuantType.INT8, new PerChannel(-2)));

    /** Integers with a zero point for each output channel, activations untouched. */
    public static final Recipe INT8_ASYMMETRIC =
            recipe("int8-asymmetric", null, OperandSpec.fromValues(QuantType.INT8_ASYMMETRIC, new PerChannel(-2)));

    /** W4A16: symmetric integers of four bits, one scale for a group of inputs, activations untouched. */
    public static final Recipe INT4 =
            recipe("int4", null, OperandSpec.fromValues(QuantType.INT4, new PerGroup(-1, Recipe.INT4_GROUP)));

    /** {@link #INT4} with a zero point for each group. */
    public static final Recipe INT4_ASYMMETRIC = recipe(
            "int4-asymmetric",
            null,
            OperandSpec.fromValues(QuantType.INT4_ASYMMETRIC, new PerGroup(-1, Recipe.INT4_GROUP)));

    private static final OperandSpec INT8_PER_CHANNEL = OperandSpec.fromValues(QuantType.INT8, new PerChannel(-2));

    /** {@link #INT8} with zero points of inputs, too, one for each token at run time: what quantisation-aware training with such zero points exports. */
    public static final Recipe INT8_AFFINE_INPUTS =
            recipe(INT8.name(), dynamic(QuantType.INT8_ASYMMETRIC, new PerToken()), INT8_PER_CHANNEL);

    /**
     * What {@code int8} means for models with a graph. W8A8 with one calibrated scale and zero point per activation and one scale per output
     * channel, which processors multiply faster than floats.
     */
    public static final Recipe GRAPH_INT8 = recipe(
            "int8",
            new OperandSpec(QuantType.INT8_ASYMMETRIC, new PerTensor(), new Scaling.FromStatistics()),
            INT8_PER_CHANNEL);

    /** {@link #GRAPH_INT8} with activations symmetric around zero, for runtimes that know no zero points. */
    public static final Recipe GRAPH_INT8_SYMMETRIC = new ConversionRecipe(
            "int8",
            "int8",
            new OperandSpec(QuantType.INT8, new PerTensor(), new Scaling.FromStatistics()),
            INT8_PER_CHANNEL);

    /** W8A8 for models with a graph: one scale and zero point per activation from the values of each run, so that no data are needed. */
    public static final Recipe INT8_DYNAMIC =
            recipe("int8-dynamic", dynamic(QuantType.INT8_ASYMMETRIC, new PerTensor()), INT8_PER_CHANNEL);

    /** W8A16/W8A32 for models with a graph: integers with one scale per output channel, activations untouched; needs no data. */
    public static final Recipe INT8_WEIGHT_ONLY = recipe("int8-weight-only", null, INT8_PER_CHANNEL);

    /** W4A16/W4A32 for models with a graph: integers of four bits, one scale per 32 inputs, activations untouched; needs no data. */
    public static final Recipe INT4_WEIGHT_ONLY =
            recipe("int4-weight-only", null, OperandSpec.fromValues(QuantType.INT4, new PerGroup(-1, 32)));

    /** {@link #INT4_WEIGHT_ONLY} with a zero point for each group. */
    public static final Recipe GRAPH_INT4_ASYMMETRIC =
            recipe("int4-asymmetric", null, OperandSpec.fromValues(QuantType.INT4_ASYMMETRIC, new PerGroup(-1, 32)));

    /** W4A8 for models with a graph: weights as {@link #INT4_WEIGHT_ONLY}, inputs as {@link #GRAPH_INT8}. */
    public static final Recipe INT4_INT8 = recipe("int4-int8", GRAPH_INT8.input(), INT4_WEIGHT_ONLY.weight());

    /** What {@code fp8} means for models with a graph: {@link #FP8_PER_CHANNEL}. */
    public static final Recipe GRAPH_FP8 = as("fp8", FP8_PER_CHANNEL);

    /** What {@code fp8} means for checkpoints: {@link #FP8_PER_TENSOR}. */
    public static final Recipe CHECKPOINT_FP8 = as("fp8", FP8_PER_TENSOR);

    /** Recipes for models with a graph, in the order help lists them. */
    public static final List<Recipe> GRAPH = List.of(
            GRAPH_FP8,
            FP8_PER_TENSOR,
            FP8_WEIGHT_ONLY,
            GRAPH_INT8,
            INT8_DYNAMIC,
            INT8_WEIGHT_ONLY,
            INT4_WEIGHT_ONLY,
            GRAPH_INT4_ASYMMETRIC,
            INT4_INT8);

    /** Recipes for checkpoints of tensors, in the order help lists them; of two with equal weights the first one is the usual one. */
    public static final List<Recipe> CHECKPOINT = List.of(
            FP8_DYNAMIC,
            CHECKPOINT_FP8,
            FP8_BLOCK,
            MXFP8,
            NVFP4,
            INT8,
            INT8_ASYMMETRIC,
            INT4,
            INT4_ASYMMETRIC,
            FP8_WEIGHT_ONLY);

    /** Recipes for training by each name that users may type, read from the fields they wrote; the first is the default. */
    public static final Map<String, Function<RecipeFields, TrainingRecipe>> TRAINING = training();

    private Recipes() {}

    /** Recipes of {@link #GRAPH} or {@link #CHECKPOINT} by each name that users may type, in the same order. */
    public static Map<String, Recipe> byName(List<Recipe> recipes) {
        Map<String, Recipe> byName = new LinkedHashMap<>();
        recipes.forEach(r -> byName.put(r.name(), r));
        recipes.forEach(r -> byName.putIfAbsent(r.ownName(), as(r.ownName(), r)));
        return Collections.unmodifiableMap(byName);
    }

    /** Their names for help, aliases with what they mean: {@code fp8 (= fp8-per-channel), fp8-weight-only}. */
    public static String names(List<Recipe> recipes) {
        return recipes.stream()
                .map(r -> r.name().equals(r.ownName()) ? r.name() : r.name() + " (= " + r.ownName() + ")")
                .collect(Collectors.joining(", "));
    }

    private static Map<String, Function<RecipeFields, TrainingRecipe>> training() {
        Map<String, Function<RecipeFields, TrainingRecipe>> readers = new LinkedHashMap<>();
        readers.put("delayed", TrainingRecipe.DelayedScaling::read);
        readers.put("current", TrainingRecipe.CurrentScaling::read);
        readers.put("block", TrainingRecipe.BlockScaling::read);
        readers.put("mxfp8", TrainingRecipe.Mxfp8::read);
        readers.put("tensorwise", TrainingRecipe.Tensorwise::read);
        readers.put("rowwise", _ -> new TrainingRecipe.Rowwise());
        readers.put("rowwise_with_gw_hp", _ -> new TrainingRecipe.RowwiseWithGwHp());
        readers.put(TrainingRecipe.Qat.NAME, f -> TrainingRecipe.Qat.read(f, TrainingRecipe.Qat.NAME));
        readers.put("deployed", f -> TrainingRecipe.Qat.read(f, "deployed")); // its earlier name
        return Collections.unmodifiableMap(readers);
    }

    private static Recipe recipe(String name, @Nullable OperandSpec input, OperandSpec weight) {
        return new ConversionRecipe(name, name, input, weight);
    }

    private static Recipe as(String alias, Recipe recipe) {
        return new ConversionRecipe(alias, recipe.ownName(), recipe.input(), recipe.weight());
    }

    private static OperandSpec dynamic(QuantType type, Granularity granularity) {
        return new OperandSpec(type, granularity, new Scaling.Dynamic());
    }
}
