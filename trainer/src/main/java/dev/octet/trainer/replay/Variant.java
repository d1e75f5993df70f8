package dev.octet.trainer.replay;

import dev.octet.trainer.precision.PrecisionPolicy;

/**
 * How an excerpt is replayed.
 *
 * @param key names it within its excerpt
 * @param policy what computes in which type
 * @param reversed whether the samples of each micro-batch come in reversed order, so that sums over them round otherwise
 * @param shake relative size of random changes of vectors such as biases, which stand for roundings of the sums before and after them
 */
record Variant(String key, PrecisionPolicy policy, boolean reversed, double shake) {
    Variant(String key, PrecisionPolicy policy) {
        this(key, policy, false, 0);
    }
}
