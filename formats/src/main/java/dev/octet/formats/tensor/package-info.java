/**
 * Tensors: number types, shapes, and views of bytes that somebody else owns. The bottom of the house; knows no file format.
 * What comes in: a {@link java.lang.foreign.MemorySegment}; what goes out: the same bytes with a name, a type and a shape.
 */
@NullMarked
package dev.octet.formats.tensor;

import org.jspecify.annotations.NullMarked;
