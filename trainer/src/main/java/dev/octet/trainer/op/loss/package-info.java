/** Losses against class labels: SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss. */
@NullMarked
package dev.octet.trainer.op.loss;

import org.jspecify.annotations.NullMarked;
