/**
 * Frozen matrices in the bytes they are stored in: products with them, and rows of them. Codes with scales (or floats of another type) become floats tile by
 * tile just before they are multiplied, so that no copy of a matrix is ever whole. They get no gradient.
 */
@NullMarked
package dev.octet.trainer.op.stored;

import org.jspecify.annotations.NullMarked;
