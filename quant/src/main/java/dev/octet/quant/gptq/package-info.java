/**
 * Rounding of a weight with compensation: each input channel's rounding error is made up for, as well as can be, by the channels that
 * are rounded after it, judged by the second moment of the layer's input. What comes in: rows of activations
 * ({@link dev.octet.quant.gptq.SecondMoment}), then a weight; what goes out: a
 * {@link dev.octet.quant.scale.QuantizedTensor} like any other. Nothing in the file format or at run time differs from plain rounding.
 *
 * <p>Sources: Frantar et al. 2022, "GPTQ" (arXiv:2210.17323); Chee et al. 2023, "QuIP" (arXiv:2307.13304), theorem 6 on the equal form
 * with one triangular factorisation, which is used here; Frantar and Alistarh 2022, "Optimal Brain Compression" (arXiv:2208.11580).
 */
@NullMarked
package dev.octet.quant.gptq;

import org.jspecify.annotations.NullMarked;
