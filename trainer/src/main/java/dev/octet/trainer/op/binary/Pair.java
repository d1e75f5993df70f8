package dev.octet.trainer.op.binary;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;

/** Types of two operands and of their result, whose shape is that of the operands after broadcasting. */
public record Pair(OperandType a, OperandType b, OperandType y) {
    /** Reads the operands of an arithmetic operator: its result has their type, F32 when two float types meet. */
    static Pair read(OpSource source) {
        OperandType a = source.input(0);
        OperandType b = source.input(1);
        DType type = a.dtype();
        if (type != b.dtype()) {
            if (!type.isFloat() || !b.dtype().isFloat()) {
                throw source.refusal(
                        "its operands are " + type + " and " + b.dtype(),
                        "export the model again with a Cast before it");
            }
            type = type == DType.F64 || b.dtype() == DType.F64 ? DType.F64 : DType.F32;
        }
        return new Pair(a, b, new OperandType(type, source.broadcast(2)));
    }

    /** Reads the operands of an operator whose result is BOOL. */
    static Pair readPredicate(OpSource source) {
        return new Pair(source.input(0), source.input(1), new OperandType(DType.BOOL, source.broadcast(2)));
    }

    /** Reads two operands of an operator that takes any number; Octet trains those with two. */
    static Pair readVariadic(OpSource source) {
        if (source.inputs().size() != 2) {
            throw source.refusal(
                    source.inputs().size() + " inputs", "Octet trains it with two; write more as a chain of nodes");
        }
        return read(source);
    }

    /** Reads the operands of Pow, whose result has the base's type. */
    static Pair readPower(OpSource source) {
        OperandType a = source.input(0);
        return new Pair(a, source.input(1), new OperandType(a.dtype(), source.broadcast(2)));
    }

    /** As {@code F32 [2, 3], F32 [3] -> F32 [2, 3]}. */
    @Override
    public String toString() {
        return a + ", " + b + " -> " + y;
    }
}
