package dev.octet.quant.recipe;

import dev.octet.quant.block.Granularity;
import dev.octet.quant.block.Granularity.PerBlock;
import dev.octet.quant.block.Granularity.PerChannel;
import dev.octet.quant.block.Granularity.PerTensor;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.quant.scale.MsampScale;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.TorchaoScale;
import dev.octet.quant.scale.TransformerEngineMxScale;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.quant.scale.WindowedScale;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/**
 * A recipe that states all three products of a Linear, for training in FP8. Fields and their defaults are those of the library a recipe comes
 * from; {@code read} takes them under the names they have there, and {@link #operand} says what they come to.
 */
public sealed interface TrainingRecipe extends Recipe {
    /** Whether amax histories outlive a step. */
    default boolean isDelayed() {
        OperandSpec input = input();
        return input != null && input.scaling() instanceof Scaling.Delayed;
    }

    /** Whether a bias of F32 activations is rounded to BF16. */
    default boolean narrowsBias() {
        return false;
    }

    /** A recipe of Transformer Engine, which adds a bias in the product's epilogue, and that takes no F32. */
    sealed interface OfTransformerEngine extends TrainingRecipe {
        @Override
        default boolean narrowsBias() {
            return true;
        }
    }

    /** What backward does with its products, where a library lets it differ from forward. */
    enum BackwardOverride {
        /** They are FP8, too. */
        NONE,
        /** They take the unquantised operands. */
        HIGH_PRECISION,
        /** They take what the quantised operands of forward stand for, and the gradient unquantised. */
        DEQUANTIZED;

        private static BackwardOverride read(RecipeFields f, BackwardOverride usual) {
            return f.choice(
                    "backward_override",
                    Map.of("none", NONE, "high_precision", HIGH_PRECISION, "dequantized", DEQUANTIZED),
                    usual);
        }

        /** What is left of operands that would all be quantised. */
        private @Nullable OperandSpec of(
                Product product, LinearTensor tensor, BiFunction<Product, LinearTensor, OperandSpec> quantised) {
            return switch (this) {
                case NONE -> quantised.apply(product, tensor);
                case HIGH_PRECISION -> product == Product.FPROP ? quantised.apply(product, tensor) : null;
                case DEQUANTIZED -> tensor == LinearTensor.GRAD_OUTPUT ? null : quantised.apply(Product.FPROP, tensor);
            };
        }
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
            FormatPair format,
            int amaxHistoryLength,
            AmaxHistory.Algorithm amaxAlgorithm,
            boolean fusedUpdate,
            boolean reduceAmax,
            boolean wgradInHighPrecision)
            implements OfTransformerEngine {
        /** The library's defaults. */
        public static final DelayedScaling DEFAULT =
                new DelayedScaling(0, FormatPair.HYBRID, 1024, AmaxHistory.Algorithm.MAX, true, true, false);

        /** Largest |margin|: beyond, the numerator leaves FP32's range. */
        public static final int MAX_MARGIN = 100;

        private static final String OVERRIDE = "override_linear_precision";

        public DelayedScaling {
            requireLength(amaxHistoryLength);
            if (Math.abs(margin) > MAX_MARGIN) {
                throw new IllegalArgumentException(
                        "margin " + margin + " is outside of -" + MAX_MARGIN + ".." + MAX_MARGIN);
            }
        }

        static DelayedScaling read(RecipeFields f) {
            f.whole("interval", 1, -1, Integer.MAX_VALUE); // taken, without effect
            return new DelayedScaling(
                    (int) f.whole("margin", DEFAULT.margin, -MAX_MARGIN, MAX_MARGIN),
                    FormatPair.read(f, DEFAULT.format),
                    length(f, DEFAULT.amaxHistoryLength),
                    f.choice(
                            "amax_compute_algo",
                            Map.of("max", AmaxHistory.Algorithm.MAX, "most_recent", AmaxHistory.Algorithm.MOST_RECENT),
                            DEFAULT.amaxAlgorithm),
                    f.flag("fused_update", DEFAULT.fusedUpdate),
                    f.flag("reduce_amax", DEFAULT.reduceAmax),
                    wgradInHighPrecision(f));
        }

        /** Accelerate's three flags, of which Transformer Engine takes all off, or the last one on. */
        private static boolean wgradInHighPrecision(RecipeFields f) {
            // Python writes True and False
            List<String> flags = f.texts(OVERRIDE).stream()
                    .map(text -> text.toLowerCase(Locale.ROOT))
                    .toList();
            boolean last = flags.equals(List.of("false", "false", "true"));
            if (!last && !flags.isEmpty() && !flags.equals(List.of("false", "false", "false"))) {
                throw f.error(
                        OVERRIDE,
                        flags + " is not supported by delayed scaling",
                        "give [false, false, true] or nothing; high_precision: [...] takes any product");
            }
            return last;
        }

        @Override
        public String name() {
            return "delayed";
        }

        @Override
        public @Nullable OperandSpec operand(Product product, LinearTensor tensor) {
            return wgradInHighPrecision && product == Product.WGRAD
                    ? null
                    : new OperandSpec(
                            format.of(tensor),
                            new PerTensor(),
                            new Scaling.Delayed(margin, amaxHistoryLength, amaxAlgorithm));
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
            boolean powerOfTwoScales, FormatPair format, float amaxEpsilon, BackwardOverride backwardOverride)
            implements OfTransformerEngine {
        /** The library's defaults. */
        public static final CurrentScaling DEFAULT =
                new CurrentScaling(false, FormatPair.HYBRID, 0, BackwardOverride.NONE);

        static CurrentScaling read(RecipeFields f) {
            return new CurrentScaling(
                    f.flag("use_power_2_scales", DEFAULT.powerOfTwoScales),
                    FormatPair.read(f, DEFAULT.format),
                    epsilon(f),
                    BackwardOverride.read(f, DEFAULT.backwardOverride));
        }

        @Override
        public String name() {
            return "current";
        }

        @Override
        public @Nullable OperandSpec operand(Product product, LinearTensor tensor) {
            QuantScaleRule rule = new TransformerEngineScale(amaxEpsilon, powerOfTwoScales, false);
            return backwardOverride.of(product, tensor, (_, t) -> current(format.of(t), new PerTensor(), rule));
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
            FormatPair format,
            float amaxEpsilon,
            int inputDim,
            int weightDim,
            int gradientDim,
            BackwardOverride backwardOverride)
            implements OfTransformerEngine {
        /** Elements of a run, and of a square's side. */
        public static final int SIZE = 128;

        /** The library's defaults. */
        public static final BlockScaling DEFAULT =
                new BlockScaling(false, FormatPair.E4M3, 0, 1, 2, 1, BackwardOverride.NONE);

        private static final String TWO_SQUARES = "two operands of one product cannot both have square blocks";

        public BlockScaling {
            for (int dim : new int[] {inputDim, weightDim, gradientDim}) {
                if (dim != 1 && dim != 2) {
                    throw new IllegalArgumentException("blocks have 1 or 2 dimensions, not " + dim);
                }
            }
            if (hasTwoSquares(inputDim, weightDim, gradientDim)) {
                throw new IllegalArgumentException(TWO_SQUARES);
            }
        }

        /** Any two of the operands meet in one of the products. */
        private static boolean hasTwoSquares(int inputDim, int weightDim, int gradientDim) {
            return inputDim + weightDim + gradientDim > 4;
        }

        static BlockScaling read(RecipeFields f) {
            int x = (int) f.whole("x_block_scaling_dim", DEFAULT.inputDim, 1, 2);
            int w = (int) f.whole("w_block_scaling_dim", DEFAULT.weightDim, 1, 2);
            int grad = (int) f.whole("grad_block_scaling_dim", DEFAULT.gradientDim, 1, 2);
            if (hasTwoSquares(x, w, grad)) {
                throw f.error("recipe", TWO_SQUARES, "give one of them 1");
            }
            return new BlockScaling(
                    f.flag("use_f32_scales", DEFAULT.f32Scales),
                    FormatPair.read(f, DEFAULT.format),
                    epsilon(f),
                    x,
                    w,
                    grad,
                    BackwardOverride.read(f, DEFAULT.backwardOverride));
        }

        @Override
        public String name() {
            return "block";
        }

        @Override
        public @Nullable OperandSpec operand(Product product, LinearTensor tensor) {
            return backwardOverride.of(product, tensor, this::quantised);
        }

        private OperandSpec quantised(Product product, LinearTensor tensor) {
            int dim = switch (tensor) {
                case INPUT -> inputDim;
                case WEIGHT -> weightDim;
                case GRAD_OUTPUT -> gradientDim;
            };
            return current(
                    format.of(tensor),
                    dim == 1 ? new Granularity.PerGroup(product.summedAxis(tensor), SIZE) : new PerBlock(SIZE, SIZE),
                    new TransformerEngineScale(amaxEpsilon, !f32Scales, true));
        }
    }

    /**
     * Transformer Engine's MXFP8BlockScaling: runs of 32 with an E8M0 scale.
     *
     * @param format E4M3 by default, gradients too
     * @param twoDimensionalWeights weights in squares of 32; false by default
     */
    record Mxfp8(FormatPair format, boolean twoDimensionalWeights, BackwardOverride backwardOverride)
            implements OfTransformerEngine {
        /** Elements of a run. */
        public static final int SIZE = 32;

        /** The library's defaults. */
        public static final Mxfp8 DEFAULT = new Mxfp8(FormatPair.E4M3, false, BackwardOverride.NONE);

        static Mxfp8 read(RecipeFields f) {
            return new Mxfp8(
                    FormatPair.read(f, DEFAULT.format),
                    f.flag("enable_2d_quantization", DEFAULT.twoDimensionalWeights),
                    BackwardOverride.read(f, DEFAULT.backwardOverride));
        }

        @Override
        public String name() {
            return "mxfp8";
        }

        @Override
        public @Nullable OperandSpec operand(Product product, LinearTensor tensor) {
            return backwardOverride.of(product, tensor, this::quantised);
        }

        private OperandSpec quantised(Product product, LinearTensor tensor) {
            boolean square = twoDimensionalWeights && tensor == LinearTensor.WEIGHT;
            return current(
                    format.of(tensor),
                    square ? new PerBlock(SIZE, SIZE) : new Granularity.Mx(product.summedAxis(tensor), SIZE),
                    new TransformerEngineMxScale());
        }
    }

    /**
     * MS-AMP's FP8Linear, read by {@code precision.mode: msamp}: powers of two for each tensor; inputs in E4M3 and gradients in E5M2 with the scale of a window of
     * steps, weights in E4M3 with a scale from their own values.
     *
     * @param rule whether the library's oddities stay
     * @param useTe whether inputs and gradients are scaled as in Transformer Engine's {@link DelayedScaling#DEFAULT}
     */
    record Msamp(MsampScale rule, boolean useTe) implements TrainingRecipe {
        @Override
        public String name() {
            return "msamp";
        }

        @Override
        public boolean narrowsBias() {
            return useTe;
        }

        @Override
        public @Nullable OperandSpec operand(Product product, LinearTensor tensor) {
            if (tensor == LinearTensor.WEIGHT) {
                return current(QuantType.E4M3FN, new PerTensor(), rule);
            }
            return useTe
                    ? DelayedScaling.DEFAULT.operand(product, tensor)
                    : current(
                            FormatPair.HYBRID.of(tensor), new PerTensor(), new WindowedScale(rule, WindowedScale.SIZE));
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

        static Tensorwise read(RecipeFields f) {
            return new Tensorwise(f.flag("round_scales_to_power_of_2", DEFAULT.powerOfTwoScales));
        }

        @Override
        public String name() {
            return "tensorwise";
        }

        @Override
        public OperandSpec operand(Product product, LinearTensor tensor) {
            return current(FormatPair.HYBRID.of(tensor), new PerTensor(), new TorchaoScale(powerOfTwoScales));
        }
    }

    /** torchao's {@code rowwise}: one power-of-two scale for each vector that goes into a sum; E4M3 throughout. */
    record Rowwise() implements TrainingRecipe {
        @Override
        public String name() {
            return "rowwise";
        }

        @Override
        public OperandSpec operand(Product product, LinearTensor tensor) {
            return current(QuantType.E4M3FN, perVector(product, tensor), new TorchaoScale(true));
        }
    }

    /** torchao's {@code rowwise_with_gw_hp}: as {@link Rowwise}, with one scale for the weight in dgrad and wgrad in high precision. */
    record RowwiseWithGwHp() implements TrainingRecipe {
        @Override
        public String name() {
            return "rowwise_with_gw_hp";
        }

        @Override
        public @Nullable OperandSpec operand(Product product, LinearTensor tensor) {
            if (product == Product.WGRAD) {
                return null;
            }
            boolean whole = product == Product.DGRAD && tensor == LinearTensor.WEIGHT;
            return current(
                    QuantType.E4M3FN, whole ? new PerTensor() : perVector(product, tensor), new TorchaoScale(true));
        }
    }

    /**
     * What {@link Recipes#FP8_PER_CHANNEL} deploys, for training that gets a model used to it (quantisation-aware training): E4M3 weights
     * with a scale for each output channel, inputs with one scale from the largest magnitudes of earlier steps. Backward takes what these
     * operands stand for, and gradients unquantised (the straight-through estimator).
     *
     * @param amaxHistoryLength how many steps an input's scale looks back on
     * @param name {@link #NAME} or its alias {@code deployed}
     */
    record Qat(int amaxHistoryLength, String name) implements TrainingRecipe {
        /** The recipe's own name. */
        public static final String NAME = "qat";

        /** As long as Transformer Engine's. */
        public static final Qat DEFAULT = new Qat(1024, NAME);

        public Qat {
            requireLength(amaxHistoryLength);
        }

        static Qat read(RecipeFields f, String name) {
            return new Qat(length(f, DEFAULT.amaxHistoryLength), name);
        }

        @Override
        public String ownName() {
            return NAME;
        }

        @Override
        public @Nullable OperandSpec operand(Product product, LinearTensor tensor) {
            return switch (tensor) {
                case INPUT ->
                    new OperandSpec(
                            QuantType.E4M3FN,
                            new PerTensor(),
                            new Scaling.Delayed(0, amaxHistoryLength, AmaxHistory.Algorithm.MAX));
                case WEIGHT ->
                    current(QuantType.E4M3FN, new PerChannel(-2), new TransformerEngineScale(0, false, false));
                case GRAD_OUTPUT -> null;
            };
        }
    }

    private static OperandSpec current(QuantType type, Granularity granularity, QuantScaleRule rule) {
        return new OperandSpec(type, granularity, new Scaling.Current(rule));
    }

    /** One scale for each vector that goes into one sum of the product: a row where it sums along rows, else a column. */
    private static Granularity perVector(Product product, LinearTensor tensor) {
        return new PerChannel(product.summedAxis(tensor) == -1 ? -2 : -1);
    }

    private static float epsilon(RecipeFields f) {
        return (float) f.number("amax_epsilon", 0, 0, Float.MAX_VALUE);
    }

    private static int length(RecipeFields f, int usual) {
        return (int) f.whole("amax_history_len", usual, 1, 1 << 20);
    }

    private static void requireLength(int amaxHistoryLength) {
        if (amaxHistoryLength < 1) {
            throw new IllegalArgumentException("amax_history_len " + amaxHistoryLength + " is below 1");
        }
    }
}
