package dev.octet.trainer.op;

import dev.octet.trainer.kernel.Frame;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Operands of one call in a test.
 *
 * @param inputs null where absent
 * @param outputs and saved values
 * @param upstream gradient of output 0; null where there is none
 * @param gradients of inputs; null where they are not wanted
 * @param adds whether gradients are added to what is there
 */
public record GivenFrame<T>(
        List<@Nullable T> inputs, List<T> outputs, @Nullable T upstream, List<@Nullable T> gradients, boolean adds)
        implements Frame<T> {
    /** Operands of a forward call. */
    public static <T> GivenFrame<T> forward(List<@Nullable T> inputs, List<T> outputs) {
        return new GivenFrame<>(inputs, outputs, null, List.of(), false);
    }

    /** The same where only some gradients are wanted, by input. */
    public GivenFrame<T> wanting(List<Boolean> wanted) {
        List<@Nullable T> some = new ArrayList<>(Collections.nCopies(wanted.size(), null));
        for (int i = 0; i < wanted.size(); i++) {
            some.set(i, wanted.get(i) ? gradients.get(i) : null);
        }
        return new GivenFrame<>(inputs, outputs, upstream, some, adds);
    }

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
        return outputs.get(j);
    }

    @Override
    public boolean hasUpstream(int j) {
        return j == 0 && upstream != null;
    }

    @Override
    public T upstream(int j) {
        return Objects.requireNonNull(upstream);
    }

    @Override
    public boolean wantsGradient(int i) {
        return i < gradients.size() && gradients.get(i) != null;
    }

    @Override
    public T gradient(int i) {
        return Objects.requireNonNull(gradients.get(i));
    }

    @Override
    public boolean accumulates(int i) {
        return adds;
    }
}
