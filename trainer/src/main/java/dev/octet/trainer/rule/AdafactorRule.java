package dev.octet.trainer.rule;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;

/**
 * Adafactor (Shazeer and Stern, arXiv:1804.04235): second moments of a matrix as the means of its rows and columns. The paper leaves open where its
 * constants enter; two implementations differ there.
 *
 * @param formula whose
 * @param eps1 regularises squared gradients
 * @param eps2 least root mean square of a parameter that its updates are scaled by
 * @param clip largest root mean square of an update before the learning rate
 * @param decayRate the second moment has the weight {@code 1 - t^decayRate} for its past; 0 or below
 * @param beta1 decay of a first moment of the updates; empty for none
 * @param scaleParameter whether updates are scaled by the root mean square of the parameter
 * @param relativeStep whether the learning rate follows from t: {@code min(0.01, 1 / √t)}
 * @param warmupInit with {@code relativeStep}: {@code min(1e-6 · t, 1 / √t)}
 */
public record AdafactorRule(
        Formula formula,
        double eps1,
        double eps2,
        double clip,
        double decayRate,
        OptionalDouble beta1,
        boolean scaleParameter,
        boolean relativeStep,
        boolean warmupInit)
        implements UpdateRule {
    /** Whose implementation. */
    public enum Formula {
        /** transformers.optimization.Adafactor, after fairseq's: eps1 is added to squared gradients. */
        TRANSFORMERS,
        /** torch.optim.Adafactor: eps1 bounds the second moment from below; the learning rate bounds the relative step. */
        TORCH
    }

    /** As the Trainer of transformers makes it for {@code optim: adafactor}. */
    public static final AdafactorRule TRANSFORMERS =
            new AdafactorRule(Formula.TRANSFORMERS, 1e-30, 1e-3, 1, -0.8, OptionalDouble.empty(), false, false, false);

    /** torch's defaults for F32; its learning rate is 0.01. */
    public static final AdafactorRule TORCH =
            new AdafactorRule(Formula.TORCH, Math.ulp(1f), 1e-3, 1, -0.8, OptionalDouble.empty(), true, true, false);

    /** Whether there is a first moment. */
    public boolean hasMoment() {
        return beta1.isPresent();
    }

    /** Whether the second moment of a tensor is factored. */
    public static boolean factors(OperandType p) {
        return p.shape().rank() > 1;
    }

    /** The buffers of a parameter, in the order of the state's names in its library, with their types. */
    public Map<String, OperandType> memory(OperandType p) {
        boolean torch = formula == Formula.TORCH;
        OperandType full = p.as(DType.F32);
        Map<String, OperandType> memory = new LinkedHashMap<>();
        if (hasMoment()) {
            memory.put("exp_avg", full);
        }
        if (!factors(p)) {
            memory.put(torch ? "variance" : "exp_avg_sq", full);
            return memory;
        }
        memory.put(torch ? "row_var" : "exp_avg_sq_row", without(full, -1, torch));
        memory.put(torch ? "col_var" : "exp_avg_sq_col", without(full, -2, torch));
        return memory;
    }

    /** A type without an axis, or with 1 for its length. */
    private static OperandType without(OperandType type, int axis, boolean keep) {
        int rank = type.shape().rank();
        List<Long> dims = new ArrayList<>();
        for (int i = 0; i < rank; i++) {
            if (i != rank + axis) {
                dims.add(type.shape().dim(i));
            } else if (keep) {
                dims.add(1L);
            }
        }
        return new OperandType(
                type.dtype(), Shape.of(dims.stream().mapToLong(Long::longValue).toArray()));
    }

    /** Weight of the past in the second moment. */
    public double kept(double t) {
        return 1 - Math.pow(t, decayRate);
    }

    /** The learning rate before it is scaled by the parameter. */
    public double rate(double lr, double t) {
        if (!relativeStep) {
            return lr;
        }
        double most = formula == Formula.TORCH ? lr : warmupInit ? 1e-6 * t : 1e-2;
        return Math.min(most, 1 / Math.sqrt(t));
    }

    /**
     * The learning rate of a tensor.
     *
     * @param squares the sum of its squared elements
     */
    public double rate(double lr, double t, double squares, long count) {
        double scale = scaleParameter ? Math.max(eps2, Math.sqrt(squares / Math.max(1, count))) : 1;
        return scale * rate(lr, t);
    }

    /** What p is multiplied by: torch shrinks it by the learning rate, transformers by that of the tensor. */
    public double shrink(double lr, double rate, double weightDecay) {
        return 1 - (formula == Formula.TORCH ? lr : rate) * weightDecay;
    }

    /** What an update is multiplied by so that its root mean square is at most {@code clip}. */
    public double clipping(double squares, long count) {
        return 1 / Math.max(1, Math.sqrt(squares / Math.max(1, count)) / clip);
    }

    /** What is added to a squared gradient. */
    public double added() {
        return formula == Formula.TRANSFORMERS ? eps1 : 0;
    }

    /** Least mean of the rows' moments. */
    public double leastMean() {
        return formula == Formula.TORCH ? eps1 : 0;
    }

    /** Least second moment. */
    public double leastMoment() {
        return formula == Formula.TORCH ? eps1 * eps1 : 0;
    }
}
