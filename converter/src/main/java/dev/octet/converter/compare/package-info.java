/**
 * Two models side by side as real numbers, whatever their number formats, layouts, names and sharding: two paths in, measures of every
 * pair of tensors out. Weights are read by element ranges through {@link dev.octet.converter.compare.Elements}, tile by tile, so memory
 * does not grow with the model, and sums are added in the order of the tiles, so results do not depend on the number of threads.
 */
@NullMarked
package dev.octet.converter.compare;

import org.jspecify.annotations.NullMarked;
