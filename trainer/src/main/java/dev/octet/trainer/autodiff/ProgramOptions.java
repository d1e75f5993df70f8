package dev.octet.trainer.autodiff;

import dev.octet.trainer.precision.PrecisionPolicy;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * What a program is to compute. With neither a loss nor upstream gradients it has no backward half.
 *
 * @param outputs values of the graph that can be read after FORWARD; each is kept in memory until then
 * @param loss the value (one element) whose gradient is wanted; it can be read, too, as {@code loss}
 * @param upstream outputs whose gradient is fed, as {@code upstream.NAME}
 * @param trained constants and inputs of the graph whose gradients are wanted
 * @param parameters constants of the graph that live in lasting memory as F32 weights; the trained ones are among them anyway
 */
public record ProgramOptions(
        List<String> outputs,
        @Nullable String loss,
        Set<String> upstream,
        Set<String> trained,
        Set<String> parameters,
        PrecisionPolicy policy) {
    public ProgramOptions {
        outputs = List.copyOf(outputs);
        // sorted: the order of values in a program follows from them
        upstream = Collections.unmodifiableSet(new TreeSet<>(upstream));
        trained = Collections.unmodifiableSet(new TreeSet<>(trained));
        parameters = Set.copyOf(parameters);
    }

    /** Only forward: {@code outputs} from the inputs. */
    public static ProgramOptions forward(
            Collection<String> outputs, Collection<String> parameters, PrecisionPolicy policy) {
        return new ProgramOptions(List.copyOf(outputs), null, Set.of(), Set.of(), Set.copyOf(parameters), policy);
    }

    /** Forward to {@code loss}, back to the gradients of {@code trained}. */
    public static ProgramOptions training(
            String loss, Collection<String> trained, Collection<String> parameters, PrecisionPolicy policy) {
        return new ProgramOptions(List.of(), loss, Set.of(), Set.copyOf(trained), Set.copyOf(parameters), policy);
    }

    /** The same with other values that can be read. */
    public ProgramOptions withOutputs(Collection<String> names) {
        return new ProgramOptions(List.copyOf(names), loss, upstream, trained, parameters, policy);
    }

    /** Whether there is something to differentiate. */
    public boolean hasBackward() {
        return loss != null || !upstream.isEmpty();
    }
}
