package dev.octet.trainer.op.binary;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import java.util.OptionalDouble;
import java.util.function.IntPredicate;

/**
 * {@code y = f(a, b)} element by element. The gradient of an operand that was repeated is summed over the repetitions by the twins.
 *
 * @param function f, a row of the table
 * @param pair the operands
 * @param exponent every element of Pow's b, when that is a constant; empty for other functions
 */
public record Binary(BinaryFunction function, Pair pair, OptionalDouble exponent) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Binary> ENTRY = entry();

    private static OpEntry<Binary> entry() {
        OpEntry<Binary> entry = OpEntry.of(Binary.class, new BinaryReference(), new BinaryCpu(), new BinaryCuda());
        for (BinaryFunction function : BinaryFunction.values()) {
            entry = entry.onnx(function.name(), function::read);
        }
        return entry.onnx("Sum", source -> BinaryFunction.Add.of(Pair.readVariadic(source)));
    }

    /** The constant exponent; NaN when there is none. */
    double constant() {
        return exponent.orElse(Double.NaN);
    }

    /** f(a, b); that of integers towards zero. */
    double value(double a, double b) {
        double y = function.value().formula().applyAsDouble(a, b);
        if (pair.y().dtype().isFloat()) {
            return y;
        }
        return y < 0 ? Math.ceil(y) : Math.floor(y);
    }

    /** f over the first {@code n} elements; {@code y} may be {@code a}. */
    void value(float[] a, float[] b, float[] y, int n) {
        function.value().tile().run(a, b, y, n, constant());
    }

    /** The share of {@code g = dL/dy} that goes to operand {@code i}. */
    double gradient(int i, double g, double a, double b) {
        return function.gradient(i).formula().of(g, a, exponent.orElse(b));
    }

    /** The shares of operand {@code i} over the first {@code n} elements. {@code a} or {@code b} hold anything where {@link #reads} says no. */
    void gradient(int i, float[] g, float[] a, float[] b, float[] d, int n) {
        function.gradient(i).tile().run(g, a, b, d, n, constant());
    }

    /** Whether the gradient of input {@code gradient} needs the value of input {@code input}. */
    boolean reads(int gradient, int input) {
        BinaryGradient share = function.gradient(gradient);
        return input == 0 ? share.readsA() : share.readsB() && exponent.isEmpty();
    }

    /** Whether tiles of F32 hold all there is to know of the operands. */
    boolean inTiles() {
        DType a = pair.a().dtype();
        return exponent.isPresent()
                ? a.isFloat() && a != DType.F64
                : CpuTensor.fitsTiles(a) && CpuTensor.fitsTiles(pair.b().dtype());
    }

    @Override
    public String type() {
        return function.name();
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(pair.y());
    }

    @Override
    public boolean isDifferentiable(int i) {
        return function.gradient(i).exists() && (i == 0 || exponent.isEmpty());
    }

    @Override
    public boolean passesGradient(int i) {
        return function.gradient(i).equals(BinaryGradient.PASSED) && (i == 0 ? pair.a() : pair.b()).equals(pair.y());
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return backwardReadsInput(i, this::isDifferentiable);
    }

    @Override
    public boolean backwardReadsInput(int i, IntPredicate wanted) {
        return (wanted.test(0) && reads(0, i)) || (wanted.test(1) && reads(1, i));
    }

    /** As {@code Add[pair=F32 [2, 3], F32 [3] -> F32 [2, 3]]}. */
    @Override
    public String toString() {
        return function + "[pair=" + pair + (function == BinaryFunction.Pow ? ", exponent=" + exponent : "") + "]";
    }
}
