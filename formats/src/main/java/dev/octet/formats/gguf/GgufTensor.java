package dev.octet.formats.gguf;

import dev.octet.formats.tensor.Shape;

/**
 * One tensor of a GGUF file. Its rows are whole blocks.
 *
 * @param shape outermost dimension first; the file has them the other way round ({@code ne[0]} is the innermost)
 * @param type of its blocks, which run along the innermost dimension
 */
public record GgufTensor(String name, Shape shape, GgufType type) {
    /** ggml's GGML_MAX_DIMS. */
    static final int MAX_RANK = 4;

    /**
     * Checks the rules of ggml.
     *
     * @throws IllegalArgumentException for more than four dimensions, or rows that are no whole number of blocks
     */
    public GgufTensor {
        if (shape.rank() > MAX_RANK) {
            throw new IllegalArgumentException(
                    "tensor '" + name + "' has " + shape.rank() + " dimensions, at most " + MAX_RANK + " are possible");
        }
        long row = shape.rank() == 0 ? 1 : shape.dim(-1);
        if (row % type.blockElements() != 0) {
            throw new IllegalArgumentException("tensor '" + name + "' has rows of " + row + " elements, " + type
                    + " has blocks of " + type.blockElements());
        }
    }

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
