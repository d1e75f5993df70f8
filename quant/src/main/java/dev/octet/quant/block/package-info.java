/**
 * The one map from the elements of a tensor to the scales that belong to them. In come a shape and a granularity; out come the number and
 * shape of the scales, the scale of an element, and runs of neighbouring elements whose scales follow by counting. Whoever casts, searches
 * scales, streams tiles or writes scale tensors asks here.
 */
@NullMarked
package dev.octet.quant.block;

import org.jspecify.annotations.NullMarked;
