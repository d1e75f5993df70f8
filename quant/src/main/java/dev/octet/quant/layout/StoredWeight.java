package dev.octet.quant.layout;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
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
 * @param data the tensor of codes; its name and shape may differ from the weight's ({@code weight_packed}: two codes to a byte, or rows of
 *     codes packed into I32)
 * @param scale the scales; null when the checkpoint has none for this weight, which every reader but a raw one must refuse
 * @param globalScale the second level (NVFP4), one element or one for each matrix; null where there is none
 * @param zeroPoint one for each scale: I8, or packed into I32 down the columns of the scales; null for symmetric codes
 * @param inputScale the static scale of the activation that this weight is multiplied with; null when dynamic or not quantised
 * @param shapeNumbers I64 or I32, a tensor that holds the dimensions of {@code shape}; null where there is none
 * @param unread why there are codes and scales and yet no way to read them; null when they can be read, or when there is no scale
 */
public record StoredWeight(
        String name,
        Shape shape,
        QuantType codes,
        Granularity granularity,
        TensorSpec data,
        @Nullable ScaleTensor scale,
        @Nullable ScaleTensor globalScale,
        @Nullable TensorSpec zeroPoint,
        @Nullable ScaleTensor inputScale,
        @Nullable TensorSpec shapeNumbers,
        @Nullable String unread) {
    /** Bits of a word that several codes are packed into. */
    public static final int WORD_BITS = 32;

    private static final String WEIGHT = ".weight";

    /** How it is stored, in words: {@code E4M3FN per 128 x 128, scale F32}. */
    public String form() {
        String scales = scale == null
                ? "without a scale"
                : granularity.text() + ", scale " + scale.number() + (globalScale == null ? "" : " x F32");
        return codes + " " + scales;
    }

    /** Whether the codes of each row are packed into I32. */
    public boolean inWords() {
        return data.dtype() == DType.I32;
    }

    /** Which elements share a scale; each matrix has scales of its own. */
    public Blocks blocks() {
        return Blocks.ofEachMatrix(shape, granularity);
    }

    /** Zero points in one element of their tensor, which are those of as many rows; 1 where they are not packed. */
    public int rowsOfZeroPoint() {
        return zeroPoint != null && zeroPoint.dtype() == DType.I32 ? WORD_BITS / codes.bits() : 1;
    }

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
        if (shapeNumbers != null) {
            tensors.add(shapeNumbers);
        }
        return tensors;
    }
}
