/**
 * Casts between floats in memory (F32, BF16, F16) and codes, and the largest magnitudes that scales come from. What comes in and goes out:
 * little-endian memory segments of any kind, place and alignment.
 *
 * <p>{@link dev.octet.quant.cast.ElementCast} casts runs of neighbouring elements and has four twins with equal results:
 * {@code ElementCastReference}, plain loops over {@code dev.octet.quant.number}, which is law, {@code ElementCastVector} on the Vector API,
 * {@code CastArrays} for JVMs without it, and {@code ElementCastScalar} for a few elements. {@link dev.octet.quant.cast.BlockCast} finds
 * the scale of each run. Single-threaded; whoever has large tensors splits them.
 */
@NullMarked
package dev.octet.quant.cast;

import org.jspecify.annotations.NullMarked;
