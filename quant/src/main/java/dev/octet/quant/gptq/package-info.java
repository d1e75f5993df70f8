/**
 * Rounds weights with compensation: the channels that are rounded later compensate the rounding error of each input channel as far as
 * possible, as measured by the second moment of the layer's input. In: rows of activations ({@link dev.octet.quant.gptq.SecondMoment}),
 * then a weight. Out: a {@link dev.octet.quant.scale.QuantizedTensor} like any other; file format and run time are the same as with plain
 * rounding.
 *
 * <p>Sources: Frantar et al. 2022, "GPTQ" (arXiv:2210.17323); Chee et al. 2023, "QuIP" (arXiv:2307.13304), theorem 6 on the equal form
 * with one triangular factorisation, which is used here; Frantar and Alistarh 2022, "Optimal Brain Compression" (arXiv:2208.11580).
 */
@NullMarked
package dev.octet.quant.gptq;

import org.jspecify.annotations.NullMarked;
