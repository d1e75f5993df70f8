package dev.octet.trainer.op.stored;

import dev.octet.trainer.kernel.Frame;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Operands of one call; the gradient of input 0 alone is wanted. */
record GivenFrame<T>(
        List<@Nullable T> inputs,
        T output,
        @Nullable T upstream,
        @Nullable T gradient,
        boolean adds) implements Frame<T> {
    @Override
    public boolean hasInput(int i) {
        return i < inputs.size() && inputs.get(i) != null;
    }

    @Override
    public T input(int i) {
        return Objects.requireNonNull(inputs.get(i));
    }

    @Override
    public T output(int j) {
        return output;
    }

    @Override
    public boolean hasUpstream(int j) {
        return upstream != null;
    }

    @Override
    public T upstream(int j) {
        return Objects.requireNonNull(upstream);
    }

    @Override
    public boolean wantsGradient(int i) {
        return i == 0 && gradient != null;
    }

    @Override
    public T gradient(int i) {
        return Objects.requireNonNull(gradient);
    }

    @Override
    public boolean accumulates(int i) {
        return adds;
    }
}
