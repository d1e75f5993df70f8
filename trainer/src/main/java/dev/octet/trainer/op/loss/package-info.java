/** Losses: against class labels, against rows of numbers, against a teacher's distribution, and two of them together. */
@NullMarked
package dev.octet.trainer.op.loss;

import org.jspecify.annotations.NullMarked;
