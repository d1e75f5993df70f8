/**
 * Casts of many values at once between floats in memory (F32, BF16, F16) and minifloat codes, with a scale, and the largest
 * magnitude of a run of floats. What comes in and goes out: little-endian memory segments of any kind, place and alignment.
 *
 * <p>Four twins with equal results: {@code ElementCastReference}, plain loops over {@code dev.octet.quant.number}, which is law,
 * {@code ElementCastVector} on the Vector API, {@code CastArrays} for JVMs without it, and {@code ElementCastScalar} for a few elements. Single-threaded; whoever has large tensors splits them.
 */
@NullMarked
package dev.octet.quant.cast;

import org.jspecify.annotations.NullMarked;
