package dev.octet.trainer.autodiff;

import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.state.StateForms;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * What a program computes. Without a loss and upstream gradients it has no backward half.
 *
 * @param outputs graph values readable after FORWARD; each is kept in memory until then
 * @param loss the value (one element) to differentiate; readable, too, as {@code loss}
 * @param upstream outputs whose gradients are fed, as {@code upstream.NAME}
 * @param trained graph constants and inputs to compute gradients of
 * @param parameters graph constants kept in persistent memory as F32 weights; trained constants need not be listed
 * @param stored graph constants used in the bytes they are stored in; see {@link StoredWeights}
 * @param states how parameters and their gradients are kept from step to step
 */
public record ProgramOptions(
        List<String> outputs,
        @Nullable String loss,
        Set<String> upstream,
        Set<String> trained,
        Set<String> parameters,
        Set<String> stored,
        PrecisionPolicy policy,
        StateForms states) {
    public ProgramOptions {
        outputs = List.copyOf(outputs);
        // sorted: they determine the order of the program's values
        upstream = Collections.unmodifiableSet(new TreeSet<>(upstream));
        trained = Collections.unmodifiableSet(new TreeSet<>(trained));
        parameters = Set.copyOf(parameters);
        stored = Set.copyOf(stored);
    }

    /** With all weights in F32. */
    public ProgramOptions(
            List<String> outputs,
            @Nullable String loss,
            Set<String> upstream,
            Set<String> trained,
            Set<String> parameters,
            PrecisionPolicy policy) {
        this(outputs, loss, upstream, trained, parameters, Set.of(), policy, StateForms.F32);
    }

    /** Forward only: from the inputs to {@code outputs}. */
    public static ProgramOptions forward(
            Collection<String> outputs, Collection<String> parameters, PrecisionPolicy policy) {
        return new ProgramOptions(List.copyOf(outputs), null, Set.of(), Set.of(), Set.copyOf(parameters), policy);
    }

    /** Forward to {@code loss}, backward to the gradients of {@code trained}. */
    public static ProgramOptions training(
            String loss, Collection<String> trained, Collection<String> parameters, PrecisionPolicy policy) {
        return new ProgramOptions(List.of(), loss, Set.of(), Set.copyOf(trained), Set.copyOf(parameters), policy);
    }

    /** These options with other readable values. */
    public ProgramOptions withOutputs(Collection<String> names) {
        return new ProgramOptions(List.copyOf(names), loss, upstream, trained, parameters, stored, policy, states);
    }

    /** These options with constants that stay as they are stored. */
    public ProgramOptions withStored(Collection<String> names) {
        return new ProgramOptions(outputs, loss, upstream, trained, parameters, Set.copyOf(names), policy, states);
    }

    /** These options with parameters and gradients kept in other forms. */
    public ProgramOptions withStates(StateForms forms) {
        return new ProgramOptions(outputs, loss, upstream, trained, parameters, stored, policy, forms);
    }

    /** Whether the program has a backward half. */
    public boolean hasBackward() {
        return loss != null || !upstream.isEmpty();
    }
}
