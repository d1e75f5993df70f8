package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OpSource;

/**
 * A number that a function of one operand has besides it.
 *
 * @param name in printed programs
 * @param onnx name of the ONNX attribute
 * @param input number of the input that newer opsets have in place of the attribute; 0 when there is none
 * @param standard value of an absent attribute
 */
record UnaryAttribute(String name, String onnx, int input, float standard) {
    /** An attribute in every opset, named as ONNX names it. */
    static UnaryAttribute of(String name, float standard) {
        return new UnaryAttribute(name, name, 0, standard);
    }

    /** Its value at a node. */
    double read(OpSource source) {
        if (input == 0 || !source.has(input)) {
            return source.node().floatAttribute(onnx, standard);
        }
        return source.number(input)
                .orElseThrow(() -> source.refusal(
                        "its bound '" + source.node().input(input) + "' is computed while the model runs",
                        "write it as Min and Max"));
    }

    /** As {@code alpha=0.01}. */
    String text(double value) {
        return name + "=" + (input == 0 ? Float.toString((float) value) : Double.toString(value));
    }
}
