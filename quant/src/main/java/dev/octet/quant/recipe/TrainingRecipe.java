package dev.octet.quant.recipe;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.OperandForm.Scaling;
import dev.octet.quant.recipe.OperandForm.Span;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.TorchaoScale;
import dev.octet.quant.scale.TransformerEngineMxScale;
import dev.octet.quant.scale.TransformerEngineScale;
import org.jspecify.annotations.Nullable;

/**
 * How the three products of a Linear are computed in FP8 while a model is trained. Fields and their defaults are those of the library a
 * recipe comes from; {@link #form} says what they come to. For models quantised once, see {@link Recipe}.
 */
public sealed interface TrainingRecipe {
    /** As users type it. */
    String name();

    /**
     * The form of an operand.
     *
     * @param tensor one that {@code product} {@linkplain Product#reads reads}
     * @return null when the product takes it unquantised
     */
    @Nullable
    OperandForm form(Product product, LinearTensor tensor);

    /** Whether amax histories outlive a step. */
    default boolean isDelayed() {
        return false;
    }

    /** Whether a bias beside F32 activations is rounded to BF16: Transformer Engine adds it in the product's epilogue, which takes no F32. */
    default boolean narrowsBias() {
        return true;
    }

    /** What backward does with its products, where a library lets it differ from forward. */
    enum BackwardOverride {
        /** They are FP8, too. */
        NONE,
        /** They take the unquantised operands. */
        HIGH_PRECISION,
        /** They take what the quantised operands of forward stand for, and the gradient unquantised. */
        DEQUANTIZED
    }

    /**
     * Transformer Engine's DelayedScaling: one scale per tensor, from the amaxes of earlier steps.
     *
     * @param margin the scale leaves room for 2^margin
     * @param format HYBRID by default
     * @param amaxHistoryLength how many steps the window holds, 1024 by default
     * @param amaxAlgorithm MAX by default
     * @param fusedUpdate {@link AmaxHistory#update}, the default, or {@link AmaxHistory#updateUnfused}
     * @param reduceAmax whether devices that train together share their amaxes, the default
     * @param wgradInHighPrecision {@code override_linear_precision = (False, False, True)} of Transformer Engine 1
     */
    record DelayedScaling(
            int margin,
            Fp8Format format,
            int amaxHistoryLength,
            AmaxHistory.Algorithm amaxAlgorithm,
            boolean fusedUpdate,
            boolean reduceAmax,
            boolean wgradInHighPrecision)
            implements TrainingRecipe {
        /** The library's defaults. */
        public static final DelayedScaling DEFAULT =
                new DelayedScaling(0, Fp8Format.HYBRID, 1024, AmaxHistory.Algorithm.MAX, true, true, false);

        /** Largest |margin|: beyond, the numerator leaves FP32's range. */
        public static final int MAX_MARGIN = 100;

        public DelayedScaling {
            if (amaxHistoryLength < 1) {
                throw new IllegalArgumentException("amax_history_len " + amaxHistoryLength + " is below 1");
            }
            if (Math.abs(margin) > MAX_MARGIN) {
                throw new IllegalArgumentException(
                        "margin " + margin + " is outside of -" + MAX_MARGIN + ".." + MAX_MARGIN);
            }
        }

        @Override
        public String name() {
            return "delayed";
        }

        @Override
        public @Nullable OperandForm form(Product product, LinearTensor tensor) {
            return wgradInHighPrecision && product == Product.WGRAD
                    ? null
                    : new OperandForm(
                            format.of(tensor),
                            new Span.Whole(),
                            new Scaling.Delayed(margin, amaxHistoryLength, amaxAlgorithm));
        }

        @Override
        public boolean isDelayed() {
            return true;
        }
    }

    /**
     * Transformer Engine's Float8CurrentScaling: one scale per tensor, from the tensor itself.
     *
     * @param powerOfTwoScales false by default
     * @param format HYBRID by default
     * @param amaxEpsilon what smaller amaxes are raised to, 0 by default
     */
    record CurrentScaling(
            boolean powerOfTwoScales, Fp8Format format, float amaxEpsilon, BackwardOverride backwardOverride)
            implements TrainingRecipe {
        /** The library's defaults. */
        public static final CurrentScaling DEFAULT =
                new CurrentScaling(false, Fp8Format.HYBRID, 0, BackwardOverride.NONE);

        @Override
        public String name() {
            return "current";
        }

        @Override
        public @Nullable OperandForm form(Product product, LinearTensor tensor) {
            OperandForm quantised = current(
                    format.of(tensor),
                    new Span.Whole(),
                    new TransformerEngineScale(amaxEpsilon, powerOfTwoScales, false));
            return overridden(backwardOverride, product, tensor, quantised);
        }
    }

    /**
     * Transformer Engine's Float8BlockScaling, after DeepSeek-V3: runs of 128 of activations and gradients, weights in squares of 128.
     *
     * @param f32Scales whether scales keep their mantissa; false by default: powers of two
     * @param format E4M3 by default, gradients too
     * @param amaxEpsilon what smaller amaxes are raised to, 0 by default
     * @param inputDim 1: runs, the default; 2: squares
     * @param weightDim 2 by default
     * @param gradientDim 1 by default; two squares cannot meet in a product
     */
    record BlockScaling(
            boolean f32Scales,
            Fp8Format format,
            float amaxEpsilon,
            int inputDim,
            int weightDim,
            int gradientDim,
            BackwardOverride backwardOverride)
            implements TrainingRecipe {
        /** Elements of a run, and of a square's side. */
        public static final int SIZE = 128;

        /** The library's defaults. */
        public static final BlockScaling DEFAULT =
                new BlockScaling(false, Fp8Format.E4M3, 0, 1, 2, 1, BackwardOverride.NONE);

        public BlockScaling {
            for (int dim : new int[] {inputDim, weightDim, gradientDim}) {
                if (dim != 1 && dim != 2) {
                    throw new IllegalArgumentException("blocks have 1 or 2 dimensions, not " + dim);
                }
            }
            if (inputDim + weightDim == 4 || gradientDim + weightDim == 4 || inputDim + gradientDim == 4) {
                throw new IllegalArgumentException("two operands of one product cannot both have square blocks");
            }
        }

        @Override
        public String name() {
            return "block";
        }

        @Override
        public @Nullable OperandForm form(Product product, LinearTensor tensor) {
            int dim = switch (tensor) {
                case INPUT -> inputDim;
                case WEIGHT -> weightDim;
                case GRAD_OUTPUT -> gradientDim;
            };
            OperandForm quantised = current(
                    format.of(tensor),
                    dim == 1 ? new Span.Run(SIZE) : new Span.Square(SIZE),
                    new TransformerEngineScale(amaxEpsilon, !f32Scales, true));
            return overridden(backwardOverride, product, tensor, quantised);
        }
    }

    /**
     * Transformer Engine's MXFP8BlockScaling: runs of 32 with an E8M0 scale.
     *
     * @param format E4M3 by default, gradients too
     * @param twoDimensionalWeights weights in squares of 32; false by default
     */
    record Mxfp8(Fp8Format format, boolean twoDimensionalWeights, BackwardOverride backwardOverride)
            implements TrainingRecipe {
        /** Elements of a run. */
        public static final int SIZE = 32;

        /** The library's defaults. */
        public static final Mxfp8 DEFAULT = new Mxfp8(Fp8Format.E4M3, false, BackwardOverride.NONE);

        @Override
        public String name() {
            return "mxfp8";
        }

        @Override
        public @Nullable OperandForm form(Product product, LinearTensor tensor) {
            boolean square = twoDimensionalWeights && tensor == LinearTensor.WEIGHT;
            OperandForm quantised = current(
                    format.of(tensor),
                    square ? new Span.Square(SIZE) : new Span.Run(SIZE),
                    new TransformerEngineMxScale());
            return overridden(backwardOverride, product, tensor, quantised);
        }
    }

    /**
     * torchao's {@code tensorwise}: one scale per tensor from the tensor itself, E5M2 gradients.
     *
     * @param powerOfTwoScales {@code round_scales_to_power_of_2}, false by default
     */
    record Tensorwise(boolean powerOfTwoScales) implements TrainingRecipe {
        /** The library's defaults. */
        public static final Tensorwise DEFAULT = new Tensorwise(false);

        @Override
        public String name() {
            return "tensorwise";
        }

        @Override
        public boolean narrowsBias() {
            return false;
        }

        @Override
        public OperandForm form(Product product, LinearTensor tensor) {
            return current(Fp8Format.HYBRID.of(tensor), new Span.Whole(), new TorchaoScale(powerOfTwoScales));
        }
    }

    /** torchao's {@code rowwise}: one power-of-two scale for each vector that goes into a sum; E4M3 throughout. */
    record Rowwise() implements TrainingRecipe {
        @Override
        public String name() {
            return "rowwise";
        }

        @Override
        public boolean narrowsBias() {
            return false;
        }

        @Override
        public OperandForm form(Product product, LinearTensor tensor) {
            return current(Float8Format.E4M3FN, new Span.Vector(), new TorchaoScale(true));
        }
    }

    /** torchao's {@code rowwise_with_gw_hp}: as {@link Rowwise}, with one scale for the weight in dgrad and wgrad in high precision. */
    record RowwiseWithGwHp() implements TrainingRecipe {
        @Override
        public String name() {
            return "rowwise_with_gw_hp";
        }

        @Override
        public boolean narrowsBias() {
            return false;
        }

        @Override
        public @Nullable OperandForm form(Product product, LinearTensor tensor) {
            if (product == Product.WGRAD) {
                return null;
            }
            boolean whole = product == Product.DGRAD && tensor == LinearTensor.WEIGHT;
            return current(Float8Format.E4M3FN, whole ? new Span.Whole() : new Span.Vector(), new TorchaoScale(true));
        }
    }

    /**
     * What {@link Recipes#FP8} deploys, for training that gets a model used to it: E4M3 weights with a scale for each output channel,
     * inputs with one scale from the largest magnitudes of earlier steps. Backward takes what these operands stand for, and gradients
     * unquantised, as quantisation-aware training does (the straight-through estimator).
     *
     * @param amaxHistoryLength how many steps an input's scale looks back on
     */
    record Deployed(int amaxHistoryLength) implements TrainingRecipe {
        /** As long as Transformer Engine's. */
        public static final Deployed DEFAULT = new Deployed(1024);

        public Deployed {
            if (amaxHistoryLength < 1) {
                throw new IllegalArgumentException("amax_history_len " + amaxHistoryLength + " is below 1");
            }
        }

        @Override
        public String name() {
            return "deployed";
        }

        @Override
        public boolean narrowsBias() {
            return false;
        }

        @Override
        public @Nullable OperandForm form(Product product, LinearTensor tensor) {
            return switch (tensor) {
                case INPUT ->
                    new OperandForm(
                            Float8Format.E4M3FN,
                            new Span.Whole(),
                            new Scaling.Delayed(0, amaxHistoryLength, AmaxHistory.Algorithm.MAX));
                case WEIGHT ->
                    current(Float8Format.E4M3FN, new Span.Vector(), new TransformerEngineScale(0, false, false));
                case GRAD_OUTPUT -> null;
            };
        }

        @Override
        public boolean isDelayed() {
            return true;
        }
    }

    private static OperandForm current(Float8Format format, Span span, QuantScaleRule rule) {
        return new OperandForm(format, span, new Scaling.Current(rule));
    }

    /**
     * What an override leaves of a form. DEQUANTIZED keeps the form of forward's operands: their product with an unquantised gradient
     * takes what they stand for.
     */
    private static @Nullable OperandForm overridden(
            BackwardOverride override, Product product, LinearTensor tensor, OperandForm quantised) {
        return switch (override) {
            case NONE -> quantised;
            case HIGH_PRECISION -> product == Product.FPROP ? quantised : null;
            case DEQUANTIZED -> product == Product.FPROP || tensor != LinearTensor.GRAD_OUTPUT ? quantised : null;
        };
    }
}
