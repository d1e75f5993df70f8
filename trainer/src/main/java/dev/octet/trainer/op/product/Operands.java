package dev.octet.trainer.op.product;

import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;

/** What operands of products must be. */
public final class Operands {
    private Operands() {}

    /**
     * Both operands of a product have one float type.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when not
     */
    public static void requireOneType(OpSource source, OperandType a, OperandType b) {
        if (a.dtype() != b.dtype() || !a.dtype().isFloat()) {
            throw source.refusal(
                    "its operands are " + a + " and " + b + "; a product needs one float type for both",
                    "cast one of them in the model");
        }
    }
}
