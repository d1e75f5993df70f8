package dev.octet.trainer.op.update;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.update.AdafactorRule.Formula;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A parameter as Adafactor sees it: a batch of matrices over its last two axes, or a vector.
 *
 * @param batch number of matrices
 * @param rows of a matrix
 * @param columns of a matrix
 */
record AdafactorShapes(long batch, long rows, long columns) {
    static AdafactorShapes of(OperandType p) {
        Shape shape = p.shape();
        long rows = shape.dim(-2);
        long columns = shape.dim(-1);
        return new AdafactorShapes(p.count() == 0 ? 0 : p.count() / (rows * columns), rows, columns);
    }

    static Map<String, OperandType> memory(AdafactorRule rule, OperandType p) {
        boolean torch = rule.formula() == Formula.TORCH;
        OperandType full = p.as(DType.F32);
        Map<String, OperandType> memory = new LinkedHashMap<>();
        if (rule.hasMoment()) {
            memory.put("exp_avg", full);
        }
        if (!AdafactorRule.factors(p)) {
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
        return new OperandType(type.dtype(), Shape.of(dims.stream().mapToLong(Long::longValue).toArray()));
    }
}
