package dev.octet.pipeline;

import dev.octet.converter.verify.Consumer;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The layout of a checkpoint for the program that will load it: what {@code --target vllm} means for a recipe. The rules of {@link
 * dev.octet.converter.verify.Verifier} hold for each, which a test proves.
 *
 * @param consumer who loads it
 * @param target the layout
 * @param reason why this one, a phrase
 */
public record Serving(Consumer consumer, Target.Checkpoint target, String reason) {
    /** Programs that load checkpoints by each name that users may type. */
    public static final Map<String, Consumer> CONSUMERS = consumers();

    private static final List<Row> ROWS = List.of(
            new Row(
                    Consumer.VLLM,
                    "fp8",
                    List.of(Recipes.FP8_BLOCK),
                    "the layout of DeepSeek's own checkpoints, which vLLM's block kernels were made for"),
            new Row(
                    Consumer.VLLM,
                    "compressed-tensors",
                    List.of(
                            Recipes.FP8_DYNAMIC,
                            Recipes.CHECKPOINT_FP8,
                            Recipes.MXFP8,
                            Recipes.NVFP4,
                            Recipes.INT8,
                            Recipes.INT8_ASYMMETRIC,
                            Recipes.INT4,
                            Recipes.INT4_ASYMMETRIC,
                            Recipes.FP8_WEIGHT_ONLY),
                    "vLLM's own, read by transformers too"),
            new Row(
                    Consumer.SGLANG,
                    "fp8",
                    List.of(Recipes.FP8_BLOCK),
                    "the layout of DeepSeek's own checkpoints, which SGLang's block kernels were made for"),
            new Row(
                    Consumer.SGLANG,
                    "compressed-tensors",
                    List.of(
                            Recipes.FP8_DYNAMIC,
                            Recipes.CHECKPOINT_FP8,
                            Recipes.INT8,
                            Recipes.INT4,
                            Recipes.FP8_WEIGHT_ONLY),
                    "the one of SGLang's layouts with this recipe, read by vLLM and transformers too"),
            new Row(
                    Consumer.SGLANG,
                    "compressed-tensors",
                    List.of(Recipes.NVFP4),
                    Inputs.STATIC,
                    "read by vLLM and transformers too"),
            new Row(
                    Consumer.TENSORRT_LLM,
                    "fp8",
                    List.of(Recipes.FP8_BLOCK),
                    "the layout of DeepSeek's own checkpoints, read by vLLM and SGLang too"),
            new Row(
                    Consumer.TENSORRT_LLM,
                    "modelopt",
                    List.of(Recipes.FP8_DYNAMIC, Recipes.MXFP8, Recipes.NVFP4),
                    "NVIDIA's own"),
            new Row(Consumer.TENSORRT_LLM, "modelopt", List.of(Recipes.CHECKPOINT_FP8), Inputs.STATIC, "NVIDIA's own"),
            new Row(
                    Consumer.TRANSFORMERS,
                    "fp8",
                    List.of(Recipes.FP8_BLOCK),
                    "computed in blocks by transformers, not dequantised first"),
            new Row(
                    Consumer.TRANSFORMERS,
                    "compressed-tensors",
                    List.of(
                            Recipes.FP8_DYNAMIC,
                            Recipes.CHECKPOINT_FP8,
                            Recipes.MXFP8,
                            Recipes.NVFP4,
                            Recipes.INT8,
                            Recipes.INT8_ASYMMETRIC,
                            Recipes.INT4,
                            Recipes.INT4_ASYMMETRIC,
                            Recipes.FP8_WEIGHT_ONLY),
                    "the only one with this recipe that transformers loads"));

    /** Which scales of inputs a row is for. */
    private enum Inputs {
        ANY,
        STATIC
    }

    private record Row(Consumer consumer, String layout, List<Recipe> recipes, Inputs inputs, String reason) {
        Row(Consumer consumer, String layout, List<Recipe> recipes, String reason) {
            this(consumer, layout, recipes, Inputs.ANY, reason);
        }

        boolean has(Recipe recipe) {
            return recipes.stream().anyMatch(r -> r.ownName().equals(recipe.ownName()));
        }
    }

    private static Map<String, Consumer> consumers() {
        Map<String, Consumer> named = new LinkedHashMap<>();
        Consumer.OF_CHECKPOINTS.forEach(c -> named.put(c.text(), c));
        named.put("hf", Consumer.TRANSFORMERS);
        return named;
    }

    /**
     * The layout for a program and a recipe.
     *
     * @param statistics whether the scales of inputs come from statistics
     * @throws InvalidOptionException when the program loads the recipe in no layout, with the recipes that it loads
     */
    public static Serving of(Consumer consumer, Recipe recipe, boolean statistics) {
        List<Row> own = ROWS.stream().filter(r -> r.consumer() == consumer).toList();
        Optional<Row> found = own.stream()
                .filter(r -> r.has(recipe) && (statistics || r.inputs() == Inputs.ANY))
                .findFirst();
        if (found.isPresent()) {
            return new Serving(
                    consumer,
                    new Target.Checkpoint(Layouts.named(found.get().layout()).orElseThrow()),
                    found.get().reason());
        }
        List<String> loads = new ArrayList<>();
        own.forEach(row -> row.recipes()
                .forEach(r -> loads.add(r.name() + (row.inputs() == Inputs.STATIC ? " (with --statistics)" : ""))));
        throw new InvalidOptionException(
                consumer.text() + " loads " + recipe.name() + " in no layout"
                        + (own.stream().anyMatch(r -> r.has(recipe)) ? " without --statistics" : ""),
                "option target",
                "it loads " + String.join(", ", loads));
    }

    /** The program that is most likely meant where only a layout was named: the first of those that load it with this recipe. */
    public static Optional<Consumer> usual(Target.Checkpoint target, Recipe recipe, boolean statistics) {
        return ROWS.stream()
                .filter(r ->
                        r.layout().equals(target.label()) && r.has(recipe) && (statistics || r.inputs() == Inputs.ANY))
                .map(Row::consumer)
                .findFirst();
    }

    /** The layouts that a program loads some recipe in, the usual one first. */
    public static List<String> layouts(Consumer consumer) {
        return ROWS.stream()
                .filter(r -> r.consumer() == consumer)
                .sorted(Comparator.comparingInt((Row r) -> r.recipes().size()).reversed())
                .map(Row::layout)
                .distinct()
                .toList();
    }
}
