package dev.octet.converter.checkpoint;

import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
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

    /** What it does to the values. */
    Exactness exactness();

    /** Whether it is of a weight that is quantised in source or target. */
    default boolean isOfWeight() {
        return switch (this) {
            case Copy _, CacheScale _ -> false;
            case Quantize _, Dequantize _, Relayout _ -> true;
        };
    }

    /** Bytes go over as they are. */
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
     * A scale of a KV cache is written.
     *
     * @param target one F32 element
     * @param value the multiplier
     */
    record CacheScale(TensorSpec target, float value) implements TensorStep {
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
     * Floats become codes.
     *
     * @param name own name of the weight; its values come from the source's reader, dequantised where they are quantised
     * @param type what the values are read as: the source's own type, F32 when dequantised
     * @param target where codes and scales go
     * @param group weights of the same group share the scale of the whole tensor; null for a weight on its own
     * @param keptScales quantised with these scales instead of its own; null as a rule
     * @param inputScale the static scale of its input, a multiplier; NaN without one
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
            Exactness exactness)
            implements TensorStep {
        @Override
        public List<TensorSpec> targets() {
            return target.tensors();
        }
    }

    /** Codes become floats. */
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
     * Codes stay, scales change name, form or number.
     *
     * @param factor what scales are multiplied with: 1, or 0.5 where codes of E4M3FNUZ are read as E4M3FN, which stand for twice the number
     */
    record Relayout(StoredWeight source, StoredWeight target, float factor, Exactness exactness) implements TensorStep {
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
