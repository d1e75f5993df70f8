package dev.octet.trainer.replay;

import dev.octet.trainer.precision.PrecisionPolicy;

/**
 * How an excerpt is replayed.
 *
 * @param key names it within its excerpt
 * @param policy what computes in which type
 * @param reversed whether the samples of each micro-batch come in reversed order, so that sums over them round otherwise
 */
record Variant(String key, PrecisionPolicy policy, boolean reversed) {
    Variant(String key, PrecisionPolicy policy) {
        this(key, policy, false);
    }
}
