package dev.octet.quant.layout;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.number.Codes;
import dev.octet.quant.scale.Granularity;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One quantised weight as it lies in a checkpoint: which tensors stand for it and what they mean,
 * {@code real[i] = (code[i] - zeroPoint[block(i)]) * scale[block(i)] * globalScale} with every scale brought to a multiplier.
 *
 * @param name the weight's own name, which it has when it is not quantised: {@code model.layers.0.mlp.up_proj.weight}
 * @param shape its own shape, outermost first: {@code [out, in]}, or {@code [experts, out, in]}
 * @param codes what the codes are
 * @param granularity which elements share a scale; channels are counted with axis -2, so that experts in front do not matter, and one
 *     scale for each of several matrices is per tensor: {@code scale} then has as many elements as there are matrices, or one for all
 * @param data the tensor of codes; its name and shape may differ from the weight's ({@code weight_packed}, two codes to a byte)
 * @param scale the scales; null when the checkpoint has none for this weight, which every reader but a raw one must refuse
 * @param globalScale the second level (NVFP4), one element or one for each matrix; null where there is none
 * @param zeroPoint I8, one for each scale; null for symmetric codes
 * @param inputScale the static scale of the activation that this weight is multiplied with; null when dynamic or not quantised
 */
public record StoredWeight(
        String name,
        Shape shape,
        Codes codes,
        Granularity granularity,
        TensorSpec data,
        @Nullable ScaleTensor scale,
        @Nullable ScaleTensor globalScale,
        @Nullable TensorSpec zeroPoint,
        @Nullable ScaleTensor inputScale) {
    private static final String WEIGHT = ".weight";

    /** The module it belongs to: its name without {@code .weight}. */
    public String module() {
        return moduleOf(name);
    }

    /** The module that a weight of this name belongs to. */
    public static String moduleOf(String weight) {
        return weight.endsWith(WEIGHT) ? weight.substring(0, weight.length() - WEIGHT.length()) : weight;
    }

    /** All tensors that stand for this weight, codes first. */
    public List<TensorSpec> tensors() {
        List<TensorSpec> tensors = new ArrayList<>();
        tensors.add(data);
        if (scale != null) {
            tensors.add(scale.spec());
        }
        if (globalScale != null) {
            tensors.add(globalScale.spec());
        }
        if (zeroPoint != null) {
            tensors.add(zeroPoint);
        }
        if (inputScale != null) {
            tensors.add(inputScale.spec());
        }
        return tensors;
    }
}
