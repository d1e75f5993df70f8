package dev.octet.trainer.device;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** The operands of one step, looked up once. */
public final class StepFrame<T> implements Frame<T> {
    private final Step step;
    private final List<@Nullable T> inputs;
    private final List<@Nullable T> outputs;
    private final List<@Nullable T> upstream;
    private final List<@Nullable T> gradients;

    /**
     * Looks up all operands of {@code step}.
     *
     * @param operand from a value to its representation on the device
     */
    public StepFrame(Step step, Function<Value, T> operand) {
        this.step = step;
        inputs = found(step.inputs(), operand);
        outputs = found(step.outputs(), operand);
        upstream = found(step.upstream(), operand);
        gradients = found(step.gradients(), operand);
    }

    private static <T> List<@Nullable T> found(List<@Nullable Value> values, Function<Value, T> operand) {
        List<@Nullable T> all = new ArrayList<>(values.size());
        for (Value v : values) {
            all.add(v == null ? null : operand.apply(v));
        }
        return all;
    }

    private static <T> @Nullable T get(List<@Nullable T> list, int i) {
        return i < list.size() ? list.get(i) : null;
    }

    private T required(List<@Nullable T> list, int i, String what) {
        T operand = get(list, i);
        if (operand == null) {
            throw new IllegalStateException(what + " " + i + " is missing in "
                    + step.op().type() + " of node '" + step.node() + "'" + (step.backward() ? ", backward" : ""));
        }
        return operand;
    }

    @Override
    public boolean hasInput(int i) {
        return get(inputs, i) != null;
    }

    @Override
    public T input(int i) {
        return required(inputs, i, "input");
    }

    @Override
    public T output(int j) {
        return required(outputs, j, "output");
    }

    @Override
    public boolean hasUpstream(int j) {
        return get(upstream, j) != null;
    }

    @Override
    public T upstream(int j) {
        return required(upstream, j, "gradient of output");
    }

    @Override
    public boolean wantsGradient(int i) {
        return get(gradients, i) != null;
    }

    @Override
    public T gradient(int i) {
        return required(gradients, i, "gradient of input");
    }

    @Override
    public boolean accumulates(int i) {
        return step.accumulated().contains(i);
    }
}
