/**
 * How the FP8 gradients of several ranks become one: what each rank sends, how sums are rounded on their way. What comes in: gradients of ranks in FP32, or in codes; what
 * goes out: codes with one scale. Whoever moves the bytes between ranks calls it.
 */
@NullMarked
package dev.octet.trainer.reduction;

import org.jspecify.annotations.NullMarked;
