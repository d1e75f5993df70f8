package dev.octet.trainer.precision;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.OperandForm;
import dev.octet.quant.recipe.OperandForm.Scaling;
import dev.octet.quant.recipe.OperandForm.Span;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.scale.QuantScaleRule;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * What a run knows of the scales of one Linear at some moment, for whoever writes the model down. Immutable; taken from the states of a
 * program.
 *
 * @param inputAmax largest magnitude of x that is remembered: of the window (delayed scaling), of the last micro-batch (current scaling); 0
 *     for none
 * @param inputScale dequantisation multiplier of x; null when none was observed
 * @param weightQuantScale what the weight is multiplied by before its next cast (delayed scaling); null when it follows from the weight
 * @param reason why there is no input scale; empty when there is one
 * @param input state of delayed scaling; null for other recipes, as the two below
 */
public record Fp8Scales(
        Fp8Layer layer,
        float inputAmax,
        @Nullable Float inputScale,
        @Nullable Float weightQuantScale,
        String reason,
        @Nullable DelayedState input,
        @Nullable DelayedState weight,
        @Nullable DelayedState gradient) {
    /**
     * One delayed scale.
     *
     * @param amaxHistory pending element first, the newest last, as {@link dev.octet.quant.scale.AmaxHistory} has it
     */
    public record DelayedState(float quantScale, List<Float> amaxHistory) {
        public DelayedState {
            amaxHistory = List.copyOf(amaxHistory);
        }

        /** The largest finite number of the history. */
        float amax() {
            float largest = 0;
            for (float a : amaxHistory) {
                largest = Float.isFinite(a) ? Math.max(largest, a) : largest;
            }
            return largest;
        }
    }

    /**
     * The scales of all layers.
     *
     * @param layers as {@link Fp8Policy#layers} has them
     * @param states elements of a state by its name; null for one that the run does not have
     */
    public static List<Fp8Scales> of(Collection<Fp8Layer> layers, Function<String, float @Nullable []> states) {
        return layers.stream().map(l -> of(l, states)).toList();
    }

    private static Fp8Scales of(Fp8Layer layer, Function<String, float @Nullable []> states) {
        DelayedState weight = delayed(layer, LinearTensor.WEIGHT, states);
        DelayedState gradient = delayed(layer, LinearTensor.GRAD_OUTPUT, states);
        OperandForm form = layer.form(Product.FPROP, LinearTensor.INPUT);
        Float weightScale = weight == null ? null : weight.quantScale();
        if (form == null) {
            String reason = "the forward product of this layer is not in FP8";
            return new Fp8Scales(layer, 0, null, weightScale, reason, null, weight, gradient);
        }
        DelayedState input = delayed(layer, LinearTensor.INPUT, states);
        float amax = input != null ? input.amax() : lastAmax(layer, states);
        if (amax == 0) {
            String reason = "the run observed no input of this layer";
            return new Fp8Scales(layer, 0, null, weightScale, reason, input, weight, gradient);
        }
        Float scale = input != null ? Float.valueOf(QuantScaleRule.scale(input.quantScale())) : fixed(form, amax);
        String reason = scale == null ? "the recipe finds scales anew for each part of an input" : "";
        return new Fp8Scales(layer, amax, scale, weightScale, reason, input, weight, gradient);
    }

    private static float lastAmax(Fp8Layer layer, Function<String, float @Nullable []> states) {
        float[] amax = states.apply(layer.slot(LinearTensor.INPUT) + ".amax");
        return amax == null || !Float.isFinite(amax[0]) ? 0 : amax[0];
    }

    /** The one scale of a tensor with this amax; null where the recipe has several. */
    private static @Nullable Float fixed(OperandForm form, float amax) {
        return form.span() instanceof Span.Whole && form.scaling() instanceof Scaling.Current(QuantScaleRule rule)
                ? QuantScaleRule.scale(rule.quantScale(amax, form.format(), DType.F32))
                : null;
    }

    private static @Nullable DelayedState delayed(
            Fp8Layer layer, LinearTensor tensor, Function<String, float @Nullable []> states) {
        float[] quantScale = states.apply(layer.slot(tensor) + ".quant_scale");
        float[] history = states.apply(layer.slot(tensor) + ".amax_history");
        if (quantScale == null || history == null) {
            return null;
        }
        List<Float> amaxes = new ArrayList<>();
        for (float a : history) {
            amaxes.add(a);
        }
        return new DelayedState(quantScale[0], amaxes);
    }

    /**
     * {@code scale_fwd} of Transformer Engine's Linear: quantScales of input, weight, output; 1 where there is no state.
     */
    public float[] transformerEngineForwardScale() {
        return new float[] {quantScale(input), quantScale(weight), 1};
    }

    /** {@code amax_history_fwd}: a row for each step, pending first, with the columns input, weight, output. */
    public float[] transformerEngineForwardHistory() {
        return columns(input, weight, null);
    }

    /** {@code scale_bwd}: quantScales of grad_output, grad_input. */
    public float[] transformerEngineBackwardScale() {
        return new float[] {quantScale(gradient), 1};
    }

    /** {@code amax_history_bwd}: a row for each step, pending first, with the columns grad_output, grad_input. */
    public float[] transformerEngineBackwardHistory() {
        return columns(gradient, null);
    }

    private static float quantScale(@Nullable DelayedState state) {
        return state == null ? 1 : state.quantScale();
    }

    private static float[] columns(@Nullable DelayedState... states) {
        int length = 0;
        for (DelayedState s : states) {
            length = s == null ? length : Math.max(length, s.amaxHistory().size());
        }
        float[] rows = new float[length * states.length];
        for (int c = 0; c < states.length; c++) {
            DelayedState s = states[c];
            for (int r = 0; s != null && r < s.amaxHistory().size(); r++) {
                rows[r * states.length + c] = s.amaxHistory().get(r);
            }
        }
        return rows;
    }
}
