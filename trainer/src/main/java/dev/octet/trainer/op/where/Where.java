package dev.octet.trainer.op.where;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * {@code y = condition ? a : b} with broadcasting. Values and gradients are selected, never multiplied: NaN and infinities of the side
 * that is not taken do not show.
 */
public record Where(OperandType condition, OperandType a, OperandType b, OperandType y) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<Where> ENTRY = OpEntry.of(
                    Where.class, new WhereReference(), new WhereCpu(), new WhereCuda())
            .onnx("Where", Where::read);

    /** Reads ONNX Where. */
    static Where read(OpSource source) {
        OperandType a = source.input(1);
        OperandType b = source.input(2);
        if (a.dtype() != b.dtype()) {
            throw source.refusal(
                    "its branches are " + a.dtype() + " and " + b.dtype(),
                    "export the model again with a Cast before it");
        }
        return new Where(source.input(0), a, b, new OperandType(a.dtype(), source.broadcast(3)));
    }

    @Override
    public String type() {
        return "Where";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i > 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i == 0;
    }
}
