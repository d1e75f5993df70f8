/**
 * Quantising and dequantising a matrix tile by tile, so that each element crosses memory once: a tile is small enough to stay in a core's
 * cache between finding its largest magnitudes and encoding it. Comes in: floats or codes of some rows; goes out: the other. Callers cut
 * the tiles and keep the scales; nothing here allocates more than a tile.
 */
@NullMarked
package dev.octet.quant.tile;

import org.jspecify.annotations.NullMarked;
