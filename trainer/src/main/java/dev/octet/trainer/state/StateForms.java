package dev.octet.trainer.state;

import dev.octet.formats.tensor.Shape;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * The forms of all tensors that a run keeps from step to step. A tensor that its form cannot keep, because it is tiny, stays in F32.
 *
 * @param parameters form of parameters
 * @param gradients form of their gradients
 * @param memory form of each buffer of the optimizer, by torch's name ({@code exp_avg}); F32 for those not named
 * @param only the parameters that {@code parameters} and {@code gradients} speak of, by name; null for all
 * @param arithmetic whose order of roundings an update follows
 */
public record StateForms(
        StateForm parameters,
        StateForm gradients,
        Map<String, StateForm> memory,
        @Nullable Set<String> only,
        Arithmetic arithmetic) {
    /** All in F32. */
    public static final StateForms F32 =
            new StateForms(StateForm.Plain.F32, StateForm.Plain.F32, Map.of(), null, Arithmetic.TORCH);

    /** The libraries whose Adam an update equals bit by bit; they differ in the order of roundings. */
    public enum Arithmetic {
        /** torch.optim. */
        TORCH,
        /** MS-AMP's LBAdam and LBAdamW with coded moments. */
        MSAMP,
        /** The same with moments in F32, which torch's operators compute. */
        MSAMP_F32,
        /** Transformer Engine's FusedAdam. */
        TRANSFORMER_ENGINE,
        /** torchao.optim. */
        TORCHAO
    }

    public StateForms {
        memory = Collections.unmodifiableMap(new TreeMap<>(memory));
        only = only == null ? null : Collections.unmodifiableSet(new TreeSet<>(only));
    }

    /** These forms, in which only some parameters and their gradients are kept in few bits. */
    public StateForms onlyOf(Set<String> names) {
        return new StateForms(parameters, gradients, memory, names, arithmetic);
    }

    /** These forms with another one for gradients. */
    public StateForms withGradients(StateForm form) {
        return new StateForms(parameters, form, memory, only, arithmetic);
    }

    private boolean speaksOf(String name) {
        return only == null || only.contains(name);
    }

    /** Form of a parameter. */
    public StateForm parameter(String name, Shape shape) {
        return speaksOf(name) ? parameters.forCount(shape.elementCount()) : StateForm.Plain.F32;
    }

    /** Form of the gradient of a parameter. */
    public StateForm gradient(String name, Shape shape) {
        return speaksOf(name) ? gradients.forCount(shape.elementCount()) : StateForm.Plain.F32;
    }

    /** Form of a buffer of the optimizer. */
    public StateForm memory(String what, Shape shape) {
        return memory.getOrDefault(what, StateForm.Plain.F32).forCount(shape.elementCount());
    }

    /** Whether all is in F32, as runs keep it by default. */
    public boolean isF32() {
        return equals(F32);
    }
}
