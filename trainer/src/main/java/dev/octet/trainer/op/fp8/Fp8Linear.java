package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * {@code y = x·w (+ b)} over the last axis of x, with each of the three products in FP8 or not, as {@link ProductForm} says. The quantised
 * operands of forward are inputs; backward quantises the gradient itself.
 *
 * <p>Inputs, in the order of the constants below: {@link #X} and {@link #W} receive gradients and are read only by products that take them
 * unquantised ({@link #W} never: such products read {@link #W_NARROW}, which is W in the type of y); {@link #BIAS} is F32 and is rounded to
 * {@code biasType} before it is added to the F32 sums; codes with their scales for forward; codes for wgrad and dgrad only where those
 * differ from forward's; for delayed scaling quantScale, F32 [1], and history, F32 [length], of the gradient. Backward records the
 * gradient's amax in that history. With {@link dev.octet.quant.scale.WindowedScale} the history is a window, and backward changes quantScale, too.
 *
 * <p>Gradients of x and w are sums in F32, scaled, rounded once to the gradient's type. The bias gradient is the sum of the unquantised
 * rows of dy.
 *
 * @param x [..., in]
 * @param w [in, out], or [out, in] with {@code transB}; F32
 * @param y [..., out]
 * @param fprop left: x as [rows, in]; right: w
 * @param dgrad left: dy as [rows, out]; right: w
 * @param wgrad left: dy; right: x
 */
public record Fp8Linear(
        OperandType x,
        OperandType w,
        boolean hasBias,
        boolean transB,
        OperandType y,
        ProductForm fprop,
        ProductForm dgrad,
        ProductForm wgrad,
        DType biasType)
        implements Op {
    public static final int X = 0;
    public static final int W = 1;
    public static final int BIAS = 2;
    public static final int W_NARROW = 3;
    public static final int X_CODES = 4;
    public static final int X_SCALE = 5;
    public static final int W_CODES = 6;
    public static final int W_SCALE = 7;
    public static final int X_CODES_WGRAD = 8;
    public static final int X_SCALE_WGRAD = 9;
    public static final int W_CODES_DGRAD = 10;
    public static final int W_SCALE_DGRAD = 11;
    public static final int DY_QUANT_SCALE = 12;
    public static final int DY_HISTORY = 13;
    /** Number of inputs. */
    public static final int INPUTS = 14;

    /** Its row in the table of operators. */
    public static final OpEntry<Fp8Linear> ENTRY =
            OpEntry.of(Fp8Linear.class, new Fp8LinearReference(), new Fp8LinearCpu(), new Fp8LinearCuda());

    /** Length of vectors of x. */
    public int in() {
        return Math.toIntExact(w.shape().dim(transB ? 1 : 0));
    }

    /** Length of vectors of y. */
    public int out() {
        return Math.toIntExact(w.shape().dim(transB ? 0 : 1));
    }

    /** Number of vectors. */
    public int rows() {
        return in() == 0 ? 0 : Math.toIntExact(x.count() / in());
    }

    /** The type of y for a type of x and a weight. */
    public static OperandType resultType(OperandType x, OperandType w, boolean transB, DType type) {
        long[] dims = x.shape().toArray();
        dims[dims.length - 1] = w.shape().dim(transB ? 0 : 1);
        return new OperandType(type, Shape.of(dims));
    }

    /** Whether wgrad reads codes of x of its own. */
    public boolean wgradHasOwnInput() {
        return wgrad.right() != null && !wgrad.right().equals(fprop.left());
    }

    /** Whether dgrad reads codes of w of its own. */
    public boolean dgradHasOwnWeight() {
        return dgrad.right() != null && !dgrad.right().equals(fprop.right());
    }

    /** Whether a product takes codes of dy with a scale of earlier steps. */
    public boolean hasDelayedGradient() {
        return isDelayed(dgrad.left()) || isDelayed(wgrad.left());
    }

    /** Whether the scale of dy comes from a window of steps. */
    boolean hasWindow() {
        return (dgrad.left() != null && dgrad.left().isWindowed())
                || (wgrad.left() != null && wgrad.left().isWindowed());
    }

    private static boolean isDelayed(@Nullable CodedMatrix dy) {
        return dy != null && (dy.isDelayed() || dy.isWindowed());
    }

    @Override
    public String type() {
        return "Fp8Linear";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == X || i == W || i == BIAS;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return switch (i) {
            case X -> wgrad.right() == null;
            case W_NARROW -> dgrad.right() == null;
            case X_CODES, X_SCALE -> wgrad.right() != null && !wgradHasOwnInput();
            case W_CODES, W_SCALE -> dgrad.right() != null && !dgradHasOwnWeight();
            case X_CODES_WGRAD, X_SCALE_WGRAD, W_CODES_DGRAD, W_SCALE_DGRAD, DY_QUANT_SCALE, DY_HISTORY -> true;
            default -> false;
        };
    }

    @Override
    public boolean forwardReadsInput(int i) {
        return switch (i) {
            case X -> fprop.left() == null;
            case W -> false;
            case W_NARROW -> fprop.right() == null;
            default -> i < X_CODES_WGRAD;
        };
    }

    @Override
    public boolean canAccumulate(int i) {
        return true;
    }

    /** The largest product that a step computes: itself, or of a mixture that of an expert which all tokens reach. */
    public static Stream<Fp8Linear> of(Op op) {
        return switch (op) {
            case Fp8Linear linear -> Stream.of(linear);
            case Fp8GroupedLinear experts -> Stream.of(experts.layer());
            default -> Stream.empty();
        };
    }

    /** Bytes of the operands that a processor decodes at a time for the products of Linears, which use the same room one after the other. */
    public static long decodedBytes(Stream<Fp8Linear> linears) {
        ScaledProduct.Decoded most = linears.map(ScaledProduct.Decoded::of)
                .reduce(new ScaledProduct.Decoded(0, 0), ScaledProduct.Decoded::and);
        return most.left() + most.right();
    }
}
