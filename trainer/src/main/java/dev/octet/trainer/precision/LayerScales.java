package dev.octet.trainer.precision;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.recipe.Product;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The scales of one FP8 Linear as a run leaves them: for whoever writes its weights for others. A tensor has one here when all its
 * elements share it; scales of rows, runs and blocks follow from the values each time and are not remembered.
 *
 * @param input null when there is none: {@link #reason} says why
 * @param weight null when it has several, or is not quantised
 * @param gradOutput only with delayed scaling
 * @param reason why the input has no scale; empty when it has one
 */
public record LayerScales(
        Fp8Layer layer,
        @Nullable TensorScale input,
        @Nullable TensorScale weight,
        @Nullable TensorScale gradOutput,
        String reason) {
    /**
     * Reads the scales of a layer.
     *
     * @param state what a checkpoint holds besides the parameters
     * @param parameters F32 masters by name
     */
    public static LayerScales of(Fp8Layer layer, Map<String, Tensor> state, Map<String, Tensor> parameters) {
        OperandSpec input = layer.operand(Product.FPROP, LinearTensor.INPUT);
        TensorScale inputScale = input == null ? null : scale(input, layer.slot(LinearTensor.INPUT), state, null);
        OperandSpec weight = layer.operand(Product.FPROP, LinearTensor.WEIGHT);
        TensorScale weightScale = weight == null
                ? null
                : scale(weight, layer.slot(LinearTensor.WEIGHT), state, parameters.get(layer.weight()));
        OperandSpec gradient = layer.operand(Product.DGRAD, LinearTensor.GRAD_OUTPUT);
        TensorScale gradientScale = gradient == null || !(gradient.scaling() instanceof Scaling.Delayed)
                ? null
                : scale(gradient, layer.slot(LinearTensor.GRAD_OUTPUT), state, null);
        return new LayerScales(layer, inputScale, weightScale, gradientScale, inputScale == null ? reason(input) : "");
    }

    private static String reason(@Nullable OperandSpec input) {
        if (input == null) {
            return "the run computed it in high precision";
        }
        return switch (input.granularity()) {
            case Granularity.PerTensor _ -> "the run saw no input of it";
            case Granularity.PerChannel _, Granularity.PerToken _ -> "the run found scales of its input for each row";
            case Granularity.PerGroup _, Granularity.PerBlock _, Granularity.Mx _ ->
                "the run found scales of its input for each block";
        };
    }

    private static @Nullable TensorScale scale(
            OperandSpec spec, String slot, Map<String, Tensor> state, @Nullable Tensor values) {
        if (!spec.perTensor()) {
            return null;
        }
        return switch (spec.scaling()) {
            case Scaling.Delayed _ -> delayed(state.get(slot + ".quant_scale"), state.get(slot + ".amax_history"));
            case Scaling.Current(var rule) -> {
                Tensor recorded = state.get(slot + ".amax");
                float amax = values != null
                        ? ElementCast.best().amax(DType.F32, values.bytes())
                        : recorded == null ? 0 : recorded.toFloats()[0];
                yield amax > 0 && Float.isFinite(amax)
                        ? new TensorScale(rule.quantScale(amax, spec.format(), DType.F32), amax, List.of())
                        : null;
            }
            case Scaling.FromValues _, Scaling.FromStatistics _, Scaling.Dynamic _ -> null; // not for training
        };
    }

    private static @Nullable TensorScale delayed(@Nullable Tensor quantScale, @Nullable Tensor history) {
        if (quantScale == null || history == null) {
            return null;
        }
        List<Float> amaxes = new ArrayList<>();
        float largest = 0;
        for (float amax : history.toFloats()) {
            amaxes.add(amax);
            largest = Float.isFinite(amax) ? Math.max(largest, amax) : largest;
        }
        float scale = quantScale.toFloats()[0];
        // a slot nothing was ever quantised in keeps the scale it began with
        return largest == 0 ? null : new TensorScale(scale, largest, amaxes);
    }
}
