package dev.octet.quant;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.quant.scale.QuantizedTensor;

/** What came of quantising a tensor: the codes, or the reason why it has none. Refusing is a result, not an error. */
public sealed interface Quantization {
    /** The tensor was quantised. */
    record Done(QuantizedTensor tensor) implements Quantization {}

    /**
     * The tensor holds a NaN or an infinity, which no scale can stand for.
     *
     * @param tensor its name
     * @param element row-major index of the first such element
     * @param value that element
     */
    record Refused(String tensor, long element, float value) implements Quantization {
        /** The reason in a few words, for plans and reports. */
        public String reason() {
            return "element " + element + " is " + value;
        }
    }

    /**
     * The codes, for callers that have no other use for the tensor.
     *
     * @throws InvalidDataException when it was refused
     */
    default QuantizedTensor orElseThrow() {
        return switch (this) {
            case Done(QuantizedTensor tensor) -> tensor;
            case Refused refused ->
                throw new InvalidDataException(
                        "tensor '" + refused.tensor() + "' holds a value that is not a finite number: "
                                + refused.reason(),
                        "tensor '" + refused.tensor() + "', element " + refused.element(),
                        "repair or re-export the model, or keep this tensor unquantised");
        };
    }
}
