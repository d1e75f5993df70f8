package dev.octet.trainer.op.qat;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.CodeGrid;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Fake quantisation: {@code y = q((x - offset) / step) · step + offset}, in FP32 and then rounded to the type of x, where q rounds to a grid of codes. Steps are inputs, one for each
 * block of x, so that they can be learned: {@link StepRule} says how. This is what a reader of codes computes, {@code code · scale} with scale = step.
 *
 * <p>Inputs: {@link #X}; {@link #STEP}, F32, in the order of the blocks; {@link #OFFSET}, F32, as many, absent where the form has none; {@link #PRE}, F32, as many: the steps that codes are
 * made with, absent where they are those of STEP; {@link #GLOBAL}, F32 of one element, absent where steps are used as they are: with it, the step of a block is {@code
 * e4m3(step / global) · global}, NVFP4's two levels. Steps below {@link #LEAST} count as {@link #LEAST}. Roundings of steps and of zero points pass gradients on.
 *
 * <p>Where STEP and OFFSET are the ends of a block's values ({@link Parameter#MAX}, {@link Offset#MIN}), step and zero point follow from them as torchao's {@code
 * choose_qparams_affine} of mapping ASYMMETRIC has it for F32, and codes are made as its {@code _fake_quantize_affine} makes them, with the reciprocal of the step:
 *
 * <pre>
 * min' = min(min, 0)   max' = max(max, 0)
 * step = max((max' - min') / (high - low), {@link #LEAST_NORMAL})
 * zero = clamp(low - round(min' / step), low, high)
 * y    = (clamp(round(x · (1 / step)) + zero, low, high) - zero) · step
 * </pre>
 *
 * @param x any float type; y is of the same
 * @param grid what x / step is rounded to
 * @param blocks which elements share a step, of x as a matrix
 * @param rule the derivative
 * @param form what the inputs STEP and OFFSET are
 * @param factor of the gradients of step and offset: 1 / √(N · high) for LSQ
 */
public record GridQuantize(OperandType x, CodeGrid grid, Blocks blocks, StepRule rule, Form form, float factor)
        implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<GridQuantize> ENTRY = OpEntry.of(
                    GridQuantize.class, new GridQuantizeReference(), new GridQuantizeCpu(), new GridQuantizeCuda())
            .octet("GridQuantize", GridQuantize::read);

    /** Number of an input. */
    public static final int X = 0;
    /** Number of an input. */
    public static final int STEP = 1;
    /** Number of an input. */
    public static final int OFFSET = 2;
    /** Number of an input. */
    public static final int PRE = 3;
    /** Number of an input. */
    public static final int GLOBAL = 4;

    /** The smallest step, torchao's {@code eps} of range learning. */
    public static final float LEAST = 1e-9f;

    /** The smallest step that follows from the ends of a block, torchao's {@code eps} of F32 where none is given. */
    public static final float LEAST_NORMAL = Float.MIN_NORMAL;

    /** What STEP is. */
    public enum Parameter {
        /** The step itself. */
        STEP,
        /** The largest magnitude: the step is it divided by the grid's largest number. */
        AMAX,
        /** The largest magnitude: the step is the smallest power of two at or above it divided by the grid's largest number, as ONNX rounds scales of MX formats. */
        AMAX_POWER_OF_TWO,
        /** The greatest value, beside the least one in OFFSET: both say what step and zero point are. */
        MAX
    }

    /** What OFFSET is. */
    public enum Offset {
        /** There is none. */
        NONE,
        /** A number that is taken off x and added to y: LSQ+'s β. */
        ADDED,
        /** The code of 0, rounded and clipped to the grid; grids of integers only. */
        ZERO_POINT,
        /** The least value, beside the greatest one in STEP; grids of integers only. */
        MIN
    }

    /**
     * What the inputs are.
     *
     * @param hasPre whether PRE is there
     * @param hasGlobal whether GLOBAL is there
     */
    public record Form(Parameter parameter, Offset offset, boolean hasPre, boolean hasGlobal) {
        /** The step itself, and nothing else. */
        public static final Form STEP = new Form(Parameter.STEP, Offset.NONE, false, false);

        /** Whether 0 has a code of its own, given or from the ends of a block. */
        public boolean hasZeroPoint() {
            return offset == Offset.ZERO_POINT || offset == Offset.MIN;
        }

        /**
         * The step that stands for a parameter, FP32; not for the ends of a block.
         *
         * @param value of the parameter
         * @param global of GLOBAL; of no meaning without
         */
        public float step(CodeGrid grid, float value, float global) {
            float step = parameter == Parameter.STEP ? value : value / grid.high();
            if (parameter == Parameter.AMAX_POWER_OF_TWO && step > LEAST) {
                int bits = Float.floatToRawIntBits(step);
                step = Float.intBitsToFloat((bits + 0x7FFFFF) & 0x7F800000);
            }
            if (hasGlobal) {
                Float8Format format = Float8Format.E4M3FN;
                float block = Math.clamp(step / global, format.minPositive(), format.maxValue());
                step = new CodeGrid.Floats(format).nearest(block) * global;
            }
            return step < LEAST ? LEAST : step;
        }
    }

    /** @throws IllegalArgumentException when the parts do not go together */
    public GridQuantize {
        if (form.hasZeroPoint() && !(grid instanceof CodeGrid.Integers)) {
            throw new IllegalArgumentException("a zero point belongs to integers, not to " + grid.text());
        }
        if (form.hasPre() && rule != StepRule.SCALED) {
            throw new IllegalArgumentException("two steps belong to rule SCALED, not to " + rule);
        }
        if ((rule == StepRule.RANGE) != (form.offset() == Offset.ZERO_POINT)
                && (rule == StepRule.RANGE || rule.learnsStep())) {
            throw new IllegalArgumentException("a learned zero point belongs to rule RANGE, not to " + rule);
        }
        if ((form.parameter() == Parameter.MAX) != (form.offset() == Offset.MIN)) {
            throw new IllegalArgumentException(
                    "the greatest and the least value go together, not " + form.parameter() + " and " + form.offset());
        }
        if (form.offset() == Offset.MIN && (rule.learnsStep() || form.hasPre() || form.hasGlobal())) {
            throw new IllegalArgumentException("steps from the ends of blocks are not learned and have one level");
        }
        if (blocks.elements() != x.count()) {
            throw new IllegalArgumentException("blocks of " + blocks.shape() + " for " + x);
        }
    }

    private static GridQuantize read(OpSource source) {
        OperandType x = source.input(X);
        return QuantizeNode.read(source.node()).op(x, source.input(STEP).shape(), source);
    }

    /** Whether a node is one. */
    public static boolean is(Node node) {
        return node.isOctet("GridQuantize");
    }

    @Override
    public String type() {
        return "GridQuantize";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return switch (i) {
            case X -> true;
            case STEP, PRE -> rule.learnsStep();
            case OFFSET -> rule == StepRule.LSQ || rule == StepRule.RANGE;
            default -> false;
        };
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return rule != StepRule.PASSED;
    }

    @Override
    public boolean passesGradient(int i) {
        return i == X && rule == StepRule.PASSED;
    }

    /** Type of STEP, OFFSET and PRE in programs that make the operator themselves. */
    OperandType stepType() {
        return new OperandType(DType.F32, Shape.of(blocks.scaleCount()));
    }

    /** The step that stands for a parameter, FP32. */
    float step(float parameter, float global) {
        return form.step(grid, parameter, global);
    }

    /** The step of a block whose values lie between these, FP32. */
    float stepBetween(float least, float greatest) {
        float step = (Math.max(greatest, 0) - Math.min(least, 0)) / (grid.high() - grid.low());
        return step < LEAST_NORMAL ? LEAST_NORMAL : step;
    }

    /** The code of 0 of a block with this least value, whose step is {@link #stepBetween}. */
    float zeroPoint(float least, float step) {
        float zero = grid.low() - (float) Math.rint(Math.min(least, 0) / step);
        return Math.clamp(zero, grid.low(), grid.high());
    }

    /** What the gradient of a step is multiplied by to be that of its parameter. */
    double parameterFactor() {
        boolean amax = form.parameter() != Parameter.STEP && rule != StepRule.PACT;
        return amax ? factor / (double) grid.high() : factor;
    }

    /** The zero point that stands for a parameter. */
    float zeroPoint(float parameter) {
        return grid.nearest(parameter);
    }
}
