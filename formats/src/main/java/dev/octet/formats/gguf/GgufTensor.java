package dev.octet.formats.gguf;

import dev.octet.formats.tensor.Shape;

/**
 * One tensor of a GGUF file.
 *
 * @param shape outermost dimension first; the file has them the other way round ({@code ne[0]} is the innermost)
 * @param type of its blocks, which run along the innermost dimension
 */
public record GgufTensor(String name, Shape shape, GgufType type) {
    /** Bytes of all blocks. */
    public long byteSize() {
        return type.bytes(shape.elementCount());
    }

    /** Elements of a row: the innermost dimension, 1 for a scalar. */
    public long rowElements() {
        return shape.rank() == 0 ? 1 : shape.dim(-1);
    }

    @Override
    public String toString() {
        return name + " " + shape + " " + type;
    }
}
