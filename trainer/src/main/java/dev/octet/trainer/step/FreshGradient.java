package dev.octet.trainer.step;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A gradient that a backward step added to others, computed again by itself: by a program of this step alone, on the device that computed it, with copies of the step's
 * operands. So it is what the step makes where it is the first to write the gradient, and does not tell which micro-batch of a process it comes from.
 */
final class FreshGradient {
    private final Device device;

    /** @param device of the steps */
    FreshGradient(Device device) {
        this.device = device;
    }

    /**
     * The gradient in memory of {@code arena}.
     *
     * @param input whose gradient
     * @param running has just done the step
     */
    CpuTensor of(Step step, int input, Executable running, Arena arena) {
        Value wanted = requireNonNull(step.gradients().get(input));
        try (Arena copies = Arena.ofShared(); // threads of the processor read them
                Memory nothing = device.allocate(List.of());
                Executable alone = device.load(program(step, input, running, copies), nothing)) {
            alone.run(Phase.BACKWARD);
            return Readings.of(requireNonNull(alone.program().outputs().get(wanted.name())), alone, arena);
        }
    }

    /** The step as a program whose operands are constants, also states that it writes: the run's stay as they are. */
    private static Program program(Step step, int input, Executable running, Arena arena) {
        List<@Nullable Value> gradients = new ArrayList<>();
        for (int i = 0; i < step.gradients().size(); i++) {
            gradients.add(i == input ? step.gradients().get(i) : null);
        }
        Step alone = new Step(
                Phase.BACKWARD,
                step.node(),
                step.op(),
                true,
                step.inputs(),
                step.outputs(),
                step.upstream(),
                gradients,
                Set.of());
        Value wanted = requireNonNull(step.gradients().get(input));
        Map<Value, Value> own = new LinkedHashMap<>();
        Map<Value, Tensor> constants = new LinkedHashMap<>();
        for (Value v : alone.operands()) {
            if (!own.containsKey(v)) {
                ValueRole role = v.equals(wanted) ? ValueRole.TEMPORARY : ValueRole.CONSTANT;
                Value copy = new Value(own.size(), v.name(), v.type(), role);
                own.put(v, copy);
                if (role == ValueRole.CONSTANT) {
                    TensorSpec spec =
                            new TensorSpec(v.name(), v.type().dtype(), v.type().shape());
                    constants.put(
                            copy,
                            new Tensor(spec, Readings.of(v, running, arena).bytes()));
                }
            }
        }
        return new Program(
                List.copyOf(own.values()),
                List.of(alone.with(own)),
                Map.of(),
                Map.of(wanted.name(), requireNonNull(own.get(wanted))),
                Map.of(),
                constants,
                Map.of(),
                Map.of());
    }
}
