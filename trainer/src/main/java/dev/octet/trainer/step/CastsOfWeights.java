package dev.octet.trainer.step;

import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.fp8.QuantizeFp8;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.op.fp8.QuantizeState;
import dev.octet.trainer.op.state.DecodeState;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.util.HashSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Tells casts and codes of weights from those of activations, for who sees the steps of a program one after another. Most are made in {@link Phase#PREPARE}; those of
 * layers that are computed again, in forward.
 */
final class CastsOfWeights {
    private final Set<Value> casts = new HashSet<>();

    /** Whether a step casts a weight, or a cast of one. */
    boolean include(Step step) {
        if (step.phase() == Phase.PREPARE) {
            return true;
        }
        boolean isCast = !step.backward()
                && (step.op() instanceof Cast
                        || step.op() instanceof DecodeState
                        || step.op() instanceof QuantizeState
                        || step.op() instanceof QuantizeFp8
                        || step.op() instanceof QuantizeFp8Delayed);
        if (!isCast || !isOfWeight(step.inputs().getFirst())) {
            return false;
        }
        for (Value v : step.outputs()) {
            if (v != null) {
                casts.add(v);
            }
        }
        return true;
    }

    private boolean isOfWeight(@Nullable Value v) {
        return v != null
                && switch (v.role()) {
                    case PARAMETER, STORED, PREPARED -> true;
                    case TEMPORARY -> casts.contains(v);
                    case INPUT, CONSTANT, STATE, GRADIENT, HOSTED -> false;
                };
    }
}
