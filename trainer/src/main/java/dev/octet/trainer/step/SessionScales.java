package dev.octet.trainer.step;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.precision.Fp8Layer;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/**
 * Scales and amaxes of FP8 tensors in the memory of a session.
 *
 * @param memory has states named {@link Fp8Layer#slot} with a suffix: of the quantisation multiplier, the amax or its history
 * @param ranks of which a stage has the scales of its own layers
 */
record SessionScales(PersistentBuffers memory, SessionRanks ranks) {
    private static final String FP8 = "fp8.";
    private static final String QUANT_SCALE = ".quant_scale";
    private static final String AMAX = ".amax";
    private static final String HISTORY = ".amax_history";

    /** Dequantisation multipliers of delayed scaling, by {@link Fp8Layer#slot}. */
    Map<String, Float> scales() {
        Map<String, Float> scales = new TreeMap<>();
        memory.floats(name -> name.startsWith(FP8) && name.endsWith(QUANT_SCALE))
                .forEach((name, x) -> scales.put(
                        name.substring(0, name.length() - QUANT_SCALE.length()), QuantScaleRule.scale(x[0])));
        return scales;
    }

    /** Amaxes of the last step by {@link Fp8Layer#slot}: of inputs, and with delayed scaling of weights and gradients. */
    Map<String, Float> amaxes() {
        Map<String, Float> amaxes = new TreeMap<>();
        // the newest entry of a history is its last
        memory.floats(name -> name.startsWith(FP8) && name.contains(AMAX))
                .forEach((name, x) -> amaxes.put(name.substring(0, name.lastIndexOf(AMAX)), x[x.length - 1]));
        return amaxes;
    }

    /**
     * Makes a delayed scale sound from the next cast on, as if all amaxes of its history had been this one.
     *
     * @param slot {@link Fp8Layer#slot}
     * @param spec how its tensor is quantised, with delayed scaling
     */
    void seedScale(String slot, OperandSpec spec, float amax) {
        if (!(spec.scaling() instanceof Scaling.Delayed(int margin, int length, AmaxHistory.Algorithm algorithm))) {
            throw new IllegalArgumentException("the scale of " + slot + " is not delayed");
        }
        if (ranks.isStaged() && !memory.has(slot + QUANT_SCALE)) {
            return; // of another stage
        }
        float[] history = new float[length];
        Arrays.fill(history, amax);
        float quantScale = AmaxHistory.update(history, 1, AmaxHistory.scaledMax(spec.format(), margin), algorithm);
        Arena arena = Arena.ofAuto();
        memory.restore(Map.of(
                slot + QUANT_SCALE, Tensor.ofFloats(arena, slot + QUANT_SCALE, Shape.of(1), quantScale),
                slot + HISTORY, Tensor.ofFloats(arena, slot + HISTORY, Shape.of(length), history)));
    }
}
