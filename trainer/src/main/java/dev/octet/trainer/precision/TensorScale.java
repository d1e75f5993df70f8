package dev.octet.trainer.precision;

import dev.octet.quant.scale.QuantScaleRule;
import java.util.List;

/**
 * What a run remembers of the scale of one tensor.
 *
 * @param quantScale what the tensor is multiplied with before it is cast, as of the run's last step
 * @param amax largest magnitude remembered: of the history, or of the last step
 * @param history amaxes of earlier steps as Transformer Engine keeps them, element 0 pending, the newest last; empty without delayed
 *     scaling
 */
public record TensorScale(float quantScale, float amax, List<Float> history) {
    public TensorScale {
        history = List.copyOf(history);
    }

    /** The dequantisation multiplier. */
    public float scale() {
        return QuantScaleRule.scale(quantScale);
    }
}
