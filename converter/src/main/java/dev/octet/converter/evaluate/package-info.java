/**
 * Two models side by side over a data set. What comes in: a reference, a candidate, data; what goes out: how near their outputs are,
 * as records. Memory holds one batch, and one embedding per sample where the models make such.
 */
@NullMarked
package dev.octet.converter.evaluate;

import org.jspecify.annotations.NullMarked;
