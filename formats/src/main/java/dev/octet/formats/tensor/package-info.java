/**
 * Tensors: number types, shapes, and views of bytes owned elsewhere. The lowest room, independent of file formats. In: a {@link
 * java.lang.foreign.MemorySegment}. Out: the same bytes with a name, a type and a shape.
 */
@NullMarked
package dev.octet.formats.tensor;

import org.jspecify.annotations.NullMarked;
