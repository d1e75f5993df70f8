package dev.octet.trainer.kernel;

import dev.octet.formats.error.InvalidDataException;

/** Indices from data: wrapped and checked before any memory access. */
public final class Indices {
    private Indices() {}

    /**
     * Indices into an axis of {@code size} elements; negative ones count from its end.
     *
     * @param node id of the node, for messages
     * @throws InvalidDataException when an index is outside {@code -size .. size - 1}
     */
    public static int[] resolve(String node, CpuTensor indices, long size) {
        int[] at = new int[Math.toIntExact(indices.count())];
        for (int i = 0; i < at.length; i++) {
            at[i] = resolve(node, i, indices.readLong(i), size);
        }
        return at;
    }

    /** Resolves the indices of a reference twin's operand in the same way. */
    public static int[] resolve(String node, double[] indices, long size) {
        int[] at = new int[indices.length];
        for (int i = 0; i < at.length; i++) {
            at[i] = resolve(node, i, (long) indices[i], size);
        }
        return at;
    }

    /**
     * Resolves one index.
     *
     * @param position its position among the indices, for messages
     */
    public static int resolve(String node, long position, long index, long size) {
        if (index < -size || index >= size) {
            throw new InvalidDataException(
                    "index " + index + " (number " + position + ") is out of range for an axis of " + size
                            + " elements",
                    "node '" + node + "'",
                    "check the data: ids must be in 0.." + (size - 1)
                            + "; the tokenizer of another model may give ids outside the embedding");
        }
        return Math.toIntExact(index < 0 ? index + size : index);
    }
}
