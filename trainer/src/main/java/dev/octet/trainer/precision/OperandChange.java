package dev.octet.trainer.precision;

import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.scale.TransformerEngineScale;
import org.jspecify.annotations.Nullable;

/** What is done with one operand of one product instead of what the recipe says. */
public sealed interface OperandChange {
    /**
     * How the operand is quantised.
     *
     * @param spec what the recipe says; null when it does not quantise the operand
     * @return null when the product takes the operand as it is
     */
    @Nullable
    OperandSpec of(@Nullable OperandSpec spec);

    /** The product takes the operand in the narrow type, as Transformer Engine's {@code DisableQuantizationGEMM} does for both operands. */
    record Unquantised() implements OperandChange {
        @Override
        public @Nullable OperandSpec of(@Nullable OperandSpec spec) {
            return null;
        }
    }

    /**
     * One scale for the tensor, from its own values, in place of a delayed one, as Transformer Engine's {@code PerTensorScaling}. What has no
     * delayed scale stays as it is.
     */
    record Current() implements OperandChange {
        @Override
        public @Nullable OperandSpec of(@Nullable OperandSpec spec) {
            return spec != null && spec.scaling() instanceof Scaling.Delayed
                    ? new OperandSpec(
                            spec.type(),
                            new Granularity.PerTensor(),
                            new Scaling.Current(new TransformerEngineScale(0, false, false)))
                    : spec;
        }
    }

    /**
     * The operand is quantised as given and widened again, and its product computed in the narrow type, as Transformer Engine's {@code FakeQuant}.
     *
     * @param spec scaled by {@link Scaling.Current}, or the recipe's own with {@link Scaling.Delayed}, whose scale and history it then goes on with
     */
    record Fake(OperandSpec spec) implements OperandChange {
        /** @throws IllegalArgumentException when the scales come from elsewhere than the values of training steps */
        public Fake {
            if (!(spec.scaling() instanceof Scaling.Current || spec.scaling() instanceof Scaling.Delayed)) {
                throw new IllegalArgumentException(
                        "fake quantisation in training takes its scales from the values of steps, not "
                                + spec.scaling().getClass().getSimpleName());
            }
        }

        @Override
        public OperandSpec of(@Nullable OperandSpec replaced) {
            return spec;
        }
    }
}
