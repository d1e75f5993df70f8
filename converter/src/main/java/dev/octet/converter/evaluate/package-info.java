/**
 * Compares two models over a data set. In: a reference, a candidate, data. Out: records of how close their outputs are. Memory holds one
 * batch, and one embedding per sample if the models compute embeddings.
 */
@NullMarked
package dev.octet.converter.evaluate;

import org.jspecify.annotations.NullMarked;
