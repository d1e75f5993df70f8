/**
 * Steps of a program on one of several ranks: gradients averaged to the rank that owns them, values given by their owner to all. Used where a rank keeps only its
 * share of gradients, states and weights.
 */
@NullMarked
package dev.octet.trainer.op.shard;

import org.jspecify.annotations.NullMarked;
