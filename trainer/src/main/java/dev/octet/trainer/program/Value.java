package dev.octet.trainer.program;

import dev.octet.trainer.kernel.OperandType;

/**
 * An operand of a program's steps.
 *
 * @param id from 0, unique in its program
 * @param name the graph's name, or one derived from it: {@code d:x} is the gradient of {@code x}
 */
public record Value(int id, String name, OperandType type, ValueRole role) {
    /** Format: {@code %12 x F32 [2, 3]}. */
    @Override
    public String toString() {
        return "%" + id + " " + name + " " + type;
    }
}
