package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code y = f(x)} element by element. An operator is a record with its operand and attributes; it gives the function and its derivative
 * once in doubles, for the reference, and once over tiles, for processors.
 */
public interface UnaryOp extends Op {
    /** Type of the operand. */
    OperandType x();

    /** What the derivative is computed from. */
    SavedForBackward kept();

    /** f(x). */
    double value(double x);

    /** dL/dx for {@code g = dL/dy}, from what is {@link #kept}. */
    double gradient(double g, double kept);

    /** f over the first {@code n} elements; {@code y} may be {@code x}. */
    void value(float[] x, float[] y, int n);

    /** dL/dx over the first {@code n} elements; {@code dx} is an array of its own. */
    void gradient(float[] g, float[] kept, float[] dx, int n);

    @Override
    default List<OperandType> outputs() {
        return List.of(x());
    }

    @Override
    default boolean backwardReadsInput(int i) {
        return isDifferentiable(0) && kept() == SavedForBackward.INPUT;
    }

    @Override
    default boolean backwardReadsOutput(int j) {
        return isDifferentiable(0) && kept() == SavedForBackward.OUTPUT;
    }
}
