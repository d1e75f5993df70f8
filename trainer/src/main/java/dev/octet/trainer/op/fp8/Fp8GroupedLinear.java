package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A {@link Fp8Linear} for each expert of a mixture over that expert's rows: {@code offsets[e] .. offsets[e+1] - 1} of x. Everything that
 * is quantised is quantised for each expert alone, with scales, blocks and amaxes of its own, as if the other experts were not there
 * (Transformer Engine's GroupedLinear). An expert without rows has gradients of zero, and its amaxes and histories stay as they are.
 *
 * <p>How many rows an expert has is known only when it runs, and so is how many scales there are. So x is an input as it is, quantised in
 * forward for fprop and again in backward for wgrad. Codes of weights are inputs.
 *
 * <p>Inputs: x; offsets, I64 [experts + 1]; then for each expert {@link #PER_EXPERT} in the order of the constants below, which are as those
 * of {@link Fp8Linear} of the same names, and with delayed scaling of x quantScale, F32 [1], and its history, F32 [length].
 *
 * <p>Outputs: y; the quantScales that the x of each expert was cast with, F32 [experts], 0 where its scale is not delayed; with
 * {@code records} for each expert the history of x, changed, or with a scale from its own values the amax of x, F32 [1].
 *
 * @param layer the product of all rows at once: what it says of weights, and of how products are computed, holds for each expert
 * @param granularities which elements of an expert's rows share a scale
 * @param records how long the histories of x are; 1 where it is the amax alone that is kept, 0 where nothing is recorded
 */
public record Fp8GroupedLinear(Fp8Linear layer, int experts, Granularities granularities, int records) implements Op {
    /**
     * How scales of rows are shared; null where a product takes its operand as it is.
     *
     * @param fprop of x
     * @param dgrad of dy
     * @param wgradLeft of dy
     * @param wgradRight of x
     */
    public record Granularities(
            @Nullable Granularity fprop,
            @Nullable Granularity dgrad,
            @Nullable Granularity wgradLeft,
            @Nullable Granularity wgradRight) {}

    public static final int X = 0;
    public static final int OFFSETS = 1;
    /** Index of the first expert's first input. */
    static final int FIRST = 2;

    public static final int W = 0;
    public static final int BIAS = 1;
    public static final int W_NARROW = 2;
    public static final int W_CODES = 3;
    public static final int W_SCALE = 4;
    public static final int W_CODES_DGRAD = 5;
    public static final int W_SCALE_DGRAD = 6;
    public static final int DY_QUANT_SCALE = 7;
    public static final int DY_HISTORY = 8;
    public static final int X_QUANT_SCALE = 9;
    public static final int X_HISTORY = 10;
    /** Number of inputs of an expert. */
    public static final int PER_EXPERT = 11;

    /** The output that has the multipliers of x. */
    static final int X_QUANT_SCALES = 1;
    /** The first output of those that are recorded. */
    static final int RECORDED = 2;

    /** Its row in the table of operators. */
    public static final OpEntry<Fp8GroupedLinear> ENTRY = OpEntry.of(
            Fp8GroupedLinear.class,
            new Fp8GroupedLinearReference(),
            new Fp8GroupedLinearCpu(),
            new Fp8GroupedLinearCuda());

    /** Index of an input of an expert. */
    public static int at(int expert, int input) {
        return FIRST + expert * PER_EXPERT + input;
    }

    /** Index of an expert's input that is input {@code i} of a {@link Fp8Linear}; -1 for codes of x, which are none. */
    public static int of(int i, int expert) {
        return switch (i) {
            case Fp8Linear.X -> X;
            case Fp8Linear.W -> at(expert, W);
            case Fp8Linear.BIAS -> at(expert, BIAS);
            case Fp8Linear.W_NARROW -> at(expert, W_NARROW);
            case Fp8Linear.W_CODES -> at(expert, W_CODES);
            case Fp8Linear.W_SCALE -> at(expert, W_SCALE);
            case Fp8Linear.W_CODES_DGRAD -> at(expert, W_CODES_DGRAD);
            case Fp8Linear.W_SCALE_DGRAD -> at(expert, W_SCALE_DGRAD);
            case Fp8Linear.DY_QUANT_SCALE -> at(expert, DY_QUANT_SCALE);
            case Fp8Linear.DY_HISTORY -> at(expert, DY_HISTORY);
            default -> -1;
        };
    }

    /** The Linear of an expert with so many rows. */
    public Fp8Linear expert(int rows) {
        int in = layer.in();
        int out = layer.out();
        ProductForm fprop = layer.fprop();
        ProductForm dgrad = layer.dgrad();
        ProductForm wgrad = layer.wgrad();
        return new Fp8Linear(
                new OperandType(layer.x().dtype(), Shape.of(rows, in)),
                layer.w(),
                layer.hasBias(),
                layer.transB(),
                new OperandType(layer.y().dtype(), Shape.of(rows, out)),
                with(fprop, form(fprop.left(), granularities.fprop, rows, in), fprop.right()),
                with(dgrad, form(dgrad.left(), granularities.dgrad, rows, out), dgrad.right()),
                with(
                        wgrad,
                        form(wgrad.left(), granularities.wgradLeft, rows, out),
                        form(wgrad.right(), granularities.wgradRight, rows, in)),
                layer.biasType());
    }

    private static @Nullable CodedMatrix form(
            @Nullable CodedMatrix all, @Nullable Granularity granularity, int rows, int cols) {
        return all == null || granularity == null
                ? null
                : new CodedMatrix(all.format(), CodedMatrix.blocks(granularity, rows, cols), all.rule());
    }

    private static ProductForm with(ProductForm of, @Nullable CodedMatrix left, @Nullable CodedMatrix right) {
        return new ProductForm(left, right, of.onCodes(), of.widened(), of.accumulation());
    }

    /** Whether x is cast for fprop with a scale of earlier steps. */
    public boolean hasDelayedInput() {
        return layer.fprop().left() != null && layer.fprop().left().isDelayed();
    }

    @Override
    public String type() {
        return "Fp8GroupedLinear";
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> all = new ArrayList<>(List.of(layer.y(), new OperandType(DType.F32, Shape.of(experts))));
        for (int e = 0; records > 0 && e < experts; e++) {
            all.add(new OperandType(DType.F32, Shape.of(records)));
        }
        return all;
    }

    /** Without what is recorded. */
    @Override
    public Op again() {
        return new Fp8GroupedLinear(layer, experts, granularities, 0);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == X || (i >= FIRST && (own(i) == W || own(i) == BIAS));
    }

    private static int own(int i) {
        return (i - FIRST) % PER_EXPERT;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        if (i < FIRST) {
            return true;
        }
        return switch (own(i)) {
            case W_NARROW -> layer.dgrad().right() == null;
            case W_CODES, W_SCALE -> layer.dgrad().right() != null && !layer.dgradHasOwnWeight();
            case W_CODES_DGRAD, W_SCALE_DGRAD, DY_QUANT_SCALE, DY_HISTORY -> true;
            default -> false;
        };
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return j == X_QUANT_SCALES;
    }

    @Override
    public boolean forwardReadsInput(int i) {
        if (i < FIRST) {
            return true;
        }
        return switch (own(i)) {
            case W, W_CODES_DGRAD, W_SCALE_DGRAD, DY_QUANT_SCALE, DY_HISTORY -> false;
            case X_HISTORY -> records > 0;
            default -> true;
        };
    }

    @Override
    public boolean canAccumulate(int i) {
        return true;
    }
}
