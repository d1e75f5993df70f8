package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.AttentionInput;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.recipe.OperandSpec;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** How one tensor or weight of the source becomes tensors of the target. */
public sealed interface TensorStep {
    /** The weight's own name. */
    String name();

    /** The tensors it writes. */
    List<TensorSpec> targets();

    /** Bytes it reads from the source, scales not counted. */
    long sourceBytes();

    /** How it changes the values. */
    Exactness exactness();

    /** Whether its weight is quantised in source or target. */
    default boolean isOfWeight() {
        return switch (this) {
            case Copy _, AttentionScale _ -> false;
            case Quantize _, Dequantize _, Relayout _, Merge _ -> true;
        };
    }

    /** Copies bytes unchanged. */
    record Copy(StoredTensor source, TensorSpec target) implements TensorStep {
        @Override
        public String name() {
            return target.name();
        }

        @Override
        public List<TensorSpec> targets() {
            return List.of(target);
        }

        @Override
        public long sourceBytes() {
            return source.spec().byteSize();
        }

        @Override
        public Exactness exactness() {
            return Exactness.EXACT;
        }
    }

    /**
     * Writes the scales of one input of an attention layer.
     *
     * @param target as many F32 elements as there are values
     * @param values the multipliers: one, or one for each head
     */
    record AttentionScale(TensorSpec target, AttentionInput input, List<Float> values) implements TensorStep {
        public AttentionScale {
            values = List.copyOf(values);
        }

        @Override
        public String name() {
            return target.name();
        }

        @Override
        public List<TensorSpec> targets() {
            return List.of(target);
        }

        @Override
        public long sourceBytes() {
            return 0;
        }

        @Override
        public Exactness exactness() {
            return Exactness.EXACT;
        }
    }

    /**
     * Quantises floats to codes.
     *
     * @param name own name of the weight; its values come from the source's reader, dequantised where they are quantised
     * @param type type of the values as read: the source's type, or F32 for dequantised values
     * @param target the codes and scales to write
     * @param group weights of the same group share the per-tensor scale; null for a weight on its own
     * @param keptScales kept scales to use instead of computed ones; usually null
     * @param inputScale the static scale (multiplier) of its input; NaN without one
     * @param baseScale the scale of the whole weight as the source stores it, which the target keeps; NaN to find it from the values
     */
    record Quantize(
            String name,
            DType type,
            long sourceBytes,
            StoredWeight target,
            OperandSpec scheme,
            @Nullable String group,
            @Nullable StoredTensor keptScales,
            float inputScale,
            float baseScale,
            Exactness exactness)
            implements TensorStep {
        @Override
        public List<TensorSpec> targets() {
            return target.tensors();
        }
    }

    /**
     * Adds what adapters change to a tensor that is plain in the target.
     *
     * @param name own name of the weight; its values come from the source's reader, dequantised where they are quantised
     * @param target F32, BF16 or F16
     */
    record Merge(String name, long sourceBytes, TensorSpec target, Exactness exactness) implements TensorStep {
        @Override
        public List<TensorSpec> targets() {
            return List.of(target);
        }
    }

    /** Dequantises codes to floats. */
    record Dequantize(StoredWeight source, TensorSpec target, Exactness exactness) implements TensorStep {
        @Override
        public String name() {
            return source.name();
        }

        @Override
        public List<TensorSpec> targets() {
            return List.of(target);
        }

        @Override
        public long sourceBytes() {
            return source.data().byteSize();
        }
    }

    /**
     * Keeps the codes; changes the name, form or number of the scales.
     *
     * @param factor multiplies the scales: 1, or 0.5 for codes of E4M3FNUZ that are read as E4M3FN and then encode twice the number
     * @param globalFactor multiplies the second level of the scales
     */
    record Relayout(StoredWeight source, StoredWeight target, float factor, float globalFactor, Exactness exactness)
            implements TensorStep {
        @Override
        public String name() {
            return source.name();
        }

        @Override
        public List<TensorSpec> targets() {
            return target.tensors();
        }

        @Override
        public long sourceBytes() {
            return source.data().byteSize();
        }
    }
}
