package dev.octet.quant.gptq;

import dev.octet.quant.scale.QuantizedTensor;

/** What came of rounding a weight: the codes, or the reason why there are none. Refusing is a result, not an error. */
public sealed interface GptqResult {
    /**
     * The weight was rounded.
     *
     * @param tensor the codes and scales
     * @param error {@code sum over output channels of e^T H e} with e the error of the channel: the squared error of the layer's
     *     outputs, without bias, summed over the rows that H has seen
     * @param nearestError the same for plain rounding to nearest with the same scales; at least {@code error}
     */
    record Done(QuantizedTensor tensor, double error, double nearestError) implements GptqResult {}

    /**
     * There is nothing to go by, or a value is not a finite number.
     *
     * @param tensor name of the weight
     * @param reason in a few words, for plans and reports
     */
    record Refused(String tensor, String reason) implements GptqResult {}
}
