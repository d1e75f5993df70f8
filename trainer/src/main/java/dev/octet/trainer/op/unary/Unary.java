package dev.octet.trainer.op.unary;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code y = f(x)} element by element.
 *
 * @param function f, a row of the table
 * @param a first attribute of the function; 0 where it has none
 * @param b second attribute
 */
public record Unary(UnaryFunction function, OperandType x, double a, double b) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Unary> ENTRY = entry();

    private static OpEntry<Unary> entry() {
        OpEntry<Unary> entry = OpEntry.of(Unary.class, new UnaryReference(), new UnaryCpu(), new UnaryCuda());
        for (UnaryFunction function : UnaryFunction.values()) {
            entry = entry.onnx(function.name(), function::read);
        }
        return entry;
    }

    @Override
    public String type() {
        return function.name();
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(function.value().isTruth() ? x.as(DType.BOOL) : x);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return function.gradient().exists();
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return function.gradient().saved() == SavedForBackward.INPUT;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return function.gradient().saved() == SavedForBackward.OUTPUT;
    }

    /** f(x). */
    double value(double of) {
        return function.value().formula().of(of, a, b);
    }

    /** dL/dx for {@code g = dL/dy}, from what is saved. */
    double gradient(double g, double saved) {
        return function.gradient().formula().of(g, saved, a, b);
    }

    /** f over the first {@code n} elements; {@code y} may be {@code from}. */
    void value(float[] from, float[] y, int n) {
        function.value().tile().run(from, y, n, (float) a, (float) b);
    }

    /** dL/dx over the first {@code n} elements, from what is saved; {@code dx} is an array of its own. */
    void gradient(float[] g, float[] saved, float[] dx, int n) {
        function.gradient().tile().run(g, saved, dx, n, (float) a, (float) b);
    }

    /** As {@code LeakyRelu[x=F32 [2, 3], alpha=0.01]}. */
    @Override
    public String toString() {
        return function + "[x=" + x + function.text(a, b) + "]";
    }
}
