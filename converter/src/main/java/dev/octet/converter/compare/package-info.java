/**
 * Compares two models as real numbers, across number formats, layouts, names and sharding. In: two paths. Out: measures of every pair of
 * tensors. Weights are read tile by tile through {@link dev.octet.converter.compare.Elements}, so memory does not grow with the model; sums
 * are added in the order of the tiles, so results do not depend on the number of threads.
 */
@NullMarked
package dev.octet.converter.compare;

import org.jspecify.annotations.NullMarked;
