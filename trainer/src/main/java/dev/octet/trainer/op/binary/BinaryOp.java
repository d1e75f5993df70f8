package dev.octet.trainer.op.binary;

import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.function.IntPredicate;

/**
 * {@code y = f(a, b)} element by element. An operator is a record with its operands; it gives the function and its derivatives once in
 * doubles, for the reference, and once over tiles, for processors, in loops simple enough that the compiler makes vectors of them.
 *
 * <p>The gradient of an operand that was repeated is summed over the repetitions by the twins.
 */
public interface BinaryOp extends Op {
    /** The operands. */
    Pair pair();

    /** f(a, b). */
    double value(double a, double b);

    /** The share of {@code g = dL/dy} that goes to a. */
    double gradientA(double g, double a, double b);

    /** The share of {@code g = dL/dy} that goes to b. */
    double gradientB(double g, double a, double b);

    /** f over the first {@code n} elements; {@code y} may be {@code a}. */
    void value(float[] a, float[] b, float[] y, int n);

    /** The gradient of a over the first {@code n} elements. {@code a} or {@code b} hold anything where {@link #reads} says no. */
    void gradientA(float[] g, float[] a, float[] b, float[] da, int n);

    /** The gradient of b over the first {@code n} elements. */
    void gradientB(float[] g, float[] a, float[] b, float[] db, int n);

    /** Whether the gradient of input {@code gradient} needs the value of input {@code input}. */
    boolean reads(int gradient, int input);

    /** Whether tiles of F32 hold all there is to know of the operands. */
    default boolean inTiles() {
        return CpuTensor.fitsTiles(pair().a().dtype())
                && CpuTensor.fitsTiles(pair().b().dtype());
    }

    @Override
    default List<OperandType> outputs() {
        return List.of(pair().y());
    }

    @Override
    default boolean backwardReadsInput(int i) {
        return backwardReadsInput(i, this::isDifferentiable);
    }

    @Override
    default boolean backwardReadsInput(int i, IntPredicate wanted) {
        return (wanted.test(0) && reads(0, i)) || (wanted.test(1) && reads(1, i));
    }
}
