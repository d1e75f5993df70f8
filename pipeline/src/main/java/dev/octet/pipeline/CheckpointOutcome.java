package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointResult;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.converter.checkpoint.Exactness;
import dev.octet.converter.checkpoint.RoundedError;
import dev.octet.converter.checkpoint.SharedScale;
import dev.octet.converter.checkpoint.TensorStep;
import dev.octet.converter.transform.ModelTransform;
import dev.octet.converter.transform.TransformStep;
import dev.octet.quant.layout.AttentionInput;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.transform.Transform;
import dev.octet.quant.transform.WeightStep;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * What became of a checkpoint that was quantised, dequantised or converted, or would become of it.
 *
 * @param architecture the class of transformers that the configuration names first; null where it names none
 * @param rounding how weights are rounded, {@code nearest} or {@code gptq}; null where none is quantised by a recipe
 * @param scaleSearch how the scales of blocks are chosen, {@code amax} where nothing is searched; null where none is quantised by a recipe
 * @param roundingErrors of weights rounded with compensation: what is left of the error of their outputs, beside that of rounding to nearest
 * @param weights one entry for each weight whose bytes change, in the order of the checkpoint
 * @param exactness how many weights were changed how
 * @param kept matrices that stay as they are, with their reasons
 * @param staticInputs weights that have the static scale of their input next to them
 * @param kvCacheLayers attention layers that have scales of a KV cache
 * @param queryLayers of these, layers that have scales of their queries too
 * @param scalesPerHead whether each head has scales of its own
 * @param predicted errors of the Linears, predicted from second moments next to the statistics in a dry run; null without
 * @param transformed what transforms do before weights are quantised; null without
 * @param unreachedExperts modules of experts that no sample of the statistics reached: they have a sibling's input scale
 */
public record CheckpointOutcome(
        String model,
        String output,
        String sourceLayout,
        @Nullable String architecture,
        @Nullable String recipe,
        @Nullable String rounding,
        @Nullable String scaleSearch,
        String target,
        boolean dryRun,
        long sourceBytes,
        long targetBytes,
        double seconds,
        double gigabytesPerSecond,
        int resumedFiles,
        Map<String, Long> exactness,
        List<RoundedError> roundingErrors,
        List<Weight> weights,
        List<Kept> kept,
        List<SharedScale> sharedScales,
        long staticInputs,
        long kvCacheLayers,
        long queryLayers,
        boolean scalesPerHead,
        List<String> unreachedExperts,
        List<String> notes,
        List<String> carried,
        List<String> leftBehind,
        @Nullable Transformed transformed,
        Schemes.@Nullable Scheme predicted) {
    /** A weight and what happens to its values. */
    public record Weight(String name, String exactness) {}

    /**
     * What transforms did to weights before they were quantised, or would do.
     *
     * @param transforms as {@code --transform} takes them
     * @param folds what is folded into what
     * @param left modules whose inputs stay as they are, with the reasons
     * @param steps of each tensor that changes, in order
     */
    public record Transformed(
            List<String> transforms,
            List<TransformStep> folds,
            Map<String, String> left,
            Map<String, List<String>> steps) {
        static Transformed of(ModelTransform transform) {
            Map<String, List<String>> steps = new LinkedHashMap<>();
            transform
                    .steps()
                    .forEach((tensor, all) ->
                            steps.put(tensor, all.stream().map(WeightStep::text).toList()));
            return new Transformed(
                    transform.transforms().stream().map(Transform::text).toList(),
                    transform.folds(),
                    transform.left(),
                    steps);
        }
    }

    /** A matrix that is not quantised. */
    public record Kept(String name, String role, String reason) {}

    static CheckpointOutcome of(
            CheckpointConverter converter,
            CheckpointPlan plan,
            String output,
            @Nullable CheckpointResult result,
            StaticScales scales) {
        Map<String, Long> counts = new LinkedHashMap<>();
        for (Exactness e : Exactness.values()) {
            if (plan.count(e) > 0) {
                counts.put(e.label(), plan.count(e));
            }
        }
        if (plan.goal() instanceof ConversionRequest.Copy) {
            counts.put(Exactness.EXACT.label(), count(plan, _ -> true));
        }
        List<Weight> weights = plan.shards().stream()
                .flatMap(s -> s.steps().stream())
                .filter(TensorStep::isOfWeight)
                .map(s -> new Weight(s.name(), s.exactness().label()))
                .toList();
        List<Kept> kept = plan.decisions().stream()
                .filter(d -> !d.quantized())
                .map(d -> new Kept(d.name(), d.role().name().toLowerCase(Locale.ROOT), d.reason()))
                .toList();
        List<String> notes = new ArrayList<>();
        long again = plan.count(Exactness.DOUBLE_ROUNDING);
        if (again > 0 && plan.goal() instanceof ConversionRequest.Quantize) {
            notes.add(again + " weights were quantised before ("
                    + converter.stored().layout()
                    + ") and are rounded a second time; quantise the original model to round once");
        }
        notes.addAll(plan.notes());
        notes.addAll(scales.notes());
        double seconds = result == null ? 0 : result.seconds();
        return new CheckpointOutcome(
                converter.checkpoint().path().toString(),
                output,
                converter.stored().layout(),
                architecture(converter),
                recipe(plan.goal()),
                recipe(plan.goal()) == null ? null : plan.rounding().name(),
                recipe(plan.goal()) == null ? null : plan.rounding().search().label(),
                target(plan.goal()),
                result == null,
                plan.sourceBytes(),
                plan.targetBytes(),
                seconds,
                seconds == 0 ? 0 : plan.sourceBytes() / seconds / 1e9,
                result == null ? 0 : result.resumedFiles(),
                counts,
                result == null ? List.of() : result.rounded(),
                weights,
                kept,
                result == null ? List.of() : result.sharedScales(),
                count(
                        plan,
                        s -> s instanceof TensorStep.Quantize q && q.target().inputScale() != null),
                count(plan, s -> isScaleOf(s, AttentionInput.K)),
                count(plan, s -> isScaleOf(s, AttentionInput.Q)),
                count(plan, CheckpointOutcome::isPerHead) > 0,
                scales.unreached(),
                notes,
                result == null ? List.of() : result.carried(),
                result == null ? List.of() : result.leftBehind(),
                null,
                null);
    }

    CheckpointOutcome withPredicted(Schemes.Scheme scheme) {
        return with(notes, transformed, scheme);
    }

    /** The same with what transforms did. */
    CheckpointOutcome withTransform(ModelTransform transform) {
        if (transform.transforms().isEmpty()) {
            return this;
        }
        List<String> all = new ArrayList<>(notes);
        all.addAll(transform.notes());
        return with(all, Transformed.of(transform), predicted);
    }

    private CheckpointOutcome with(
            List<String> newNotes, @Nullable Transformed newTransformed, Schemes.@Nullable Scheme newPredicted) {
        return new CheckpointOutcome(
                model,
                output,
                sourceLayout,
                architecture,
                recipe,
                rounding,
                scaleSearch,
                target,
                dryRun,
                sourceBytes,
                targetBytes,
                seconds,
                gigabytesPerSecond,
                resumedFiles,
                exactness,
                roundingErrors,
                weights,
                kept,
                sharedScales,
                staticInputs,
                kvCacheLayers,
                queryLayers,
                scalesPerHead,
                unreachedExperts,
                newNotes,
                carried,
                leftBehind,
                newTransformed,
                newPredicted);
    }

    private static @Nullable String architecture(CheckpointConverter converter) {
        return converter
                .checkpoint()
                .config()
                .map(c -> c.path("architectures").path(0).asText(""))
                .filter(a -> !a.isEmpty())
                .orElse(null);
    }

    /** Whether it is a language model that servers generate text with. */
    public boolean generatesText() {
        return architecture != null
                && (architecture.endsWith("ForCausalLM")
                        || architecture.endsWith("LMHeadModel")
                        || architecture.endsWith("ForConditionalGeneration"));
    }

    private static boolean isScaleOf(TensorStep step, AttentionInput input) {
        return step instanceof TensorStep.AttentionScale scale && scale.input() == input;
    }

    private static boolean isPerHead(TensorStep step) {
        return step instanceof TensorStep.AttentionScale scale
                && scale.target().shape().rank() == 3;
    }

    private static long count(CheckpointPlan plan, Predicate<TensorStep> which) {
        return plan.shards().stream()
                .flatMap(s -> s.steps().stream())
                .filter(which)
                .count();
    }

    private static @Nullable String recipe(ConversionRequest goal) {
        return switch (goal) {
            case ConversionRequest.Quantize q -> q.recipe().name();
            case ConversionRequest.Dequantize _, ConversionRequest.Merge _, ConversionRequest.Copy _ -> null;
            case ConversionRequest.Convert c -> c.recipe().map(Recipe::name).orElse(null);
        };
    }

    private static String target(ConversionRequest goal) {
        return switch (goal) {
            case ConversionRequest.Quantize q -> q.layout().name();
            case ConversionRequest.Dequantize d -> "plain " + d.type();
            case ConversionRequest.Convert c -> c.layout().name();
            case ConversionRequest.Merge _ -> "as the base";
            case ConversionRequest.Copy _ -> "safetensors, as it is";
        };
    }
}
