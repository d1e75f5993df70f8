package dev.octet.quant.gptq;

import dev.octet.quant.scale.QuantizedTensor;

/** The result of rounding a weight: the codes, or the reason of a refusal. A refusal is a result, not an error. */
public sealed interface GptqResult {
    /**
     * The weight was rounded.
     *
     * @param tensor the codes and scales
     * @param error {@code sum over output channels of e^T H e} with e the error of the channel: the squared error of the layer's outputs
     *     without bias, summed over the rows of H
     * @param nearestError the error of plain rounding to nearest with the same scales; at least {@code error}
     */
    record Done(QuantizedTensor tensor, double error, double nearestError) implements GptqResult {}

    /**
     * The weight was not rounded, because the moment has no rows or a value is not finite.
     *
     * @param tensor name of the weight
     * @param reason in a few words, for plans and reports
     */
    record Refused(String tensor, String reason) implements GptqResult {}
}
