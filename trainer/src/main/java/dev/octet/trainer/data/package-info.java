/**
 * Training data. Input: files of arrays, tokens or texts, and the inputs of a graph. Output: micro-batches of tensors, in an order that
 * depends only on the seed and supports random access.
 */
@NullMarked
package dev.octet.trainer.data;

import org.jspecify.annotations.NullMarked;
