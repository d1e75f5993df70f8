package dev.octet.trainer.step;

import static java.util.Objects.requireNonNull;

import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.StepFrame;
import dev.octet.trainer.gemm.Gemms;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.Parallel;
import dev.octet.trainer.op.Ops;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A gradient that a backward step added to others, computed again by itself on the processor. On a processor it has the bits that were added; a GPU's sums run in
 * another order.
 */
final class FreshGradient {
    private FreshGradient() {}

    /** @param input whose gradient */
    static CpuTensor of(Step step, int input, Executable running, Arena arena) {
        List<@Nullable Value> gradients = new ArrayList<>();
        for (int i = 0; i < step.gradients().size(); i++) {
            gradients.add(i == input ? step.gradients().get(i) : null);
        }
        Step alone = new Step(
                step.phase(),
                step.node(),
                step.op(),
                true,
                step.inputs(),
                step.outputs(),
                step.upstream(),
                gradients,
                Set.of());
        Value wanted = requireNonNull(step.gradients().get(input));
        Map<Value, CpuTensor> operands = new HashMap<>();
        StepFrame<CpuTensor> frame = new StepFrame<>(
                alone, v -> operands.computeIfAbsent(v, operand -> Readings.of(operand, running, arena)));
        Op op = step.op();
        Ops.of(op).cpu().backward(op, frame, new CpuContext(Parallel.ALONE, Gemms.best()));
        return requireNonNull(operands.get(wanted));
    }
}
