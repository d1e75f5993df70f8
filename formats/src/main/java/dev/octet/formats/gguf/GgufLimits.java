package dev.octet.formats.gguf;

/**
 * Limits of a header, against files that exhaust memory or time. Counts are checked against the bytes of the file, too: an entry that claims
 * more than is left is refused before anything is allocated.
 *
 * @param maxTensors most tensors
 * @param maxKeys most keys of metadata
 * @param maxNesting deepest arrays of arrays
 * @param maxNameBytes longest name of a tensor or key in bytes
 * @param maxElements most elements of arrays, all keys and all arrays within arrays together
 * @param maxTextBytes most bytes of texts, all values together
 */
public record GgufLimits(
        long maxTensors, long maxKeys, int maxNesting, int maxNameBytes, int maxElements, int maxTextBytes) {
    /** ggml's limits where it has any (names of tensors: 64 bytes in ggml, of keys 65,535), otherwise Octet's own. */
    public static final GgufLimits DEFAULT = new GgufLimits(1 << 20, 1 << 16, 4, 65_535, 1 << 24, 1 << 26);

    public GgufLimits {
        if (maxTensors < 0
                || maxKeys < 0
                || maxNesting < 1
                || maxNameBytes < 1
                || maxElements < 0
                || maxTextBytes < 0) {
            throw new IllegalArgumentException("limits too small for any file: " + maxTensors + " tensors, " + maxKeys
                    + " keys, nesting " + maxNesting + ", " + maxNameBytes + " bytes of a name, "
                    + maxElements + " elements, " + maxTextBytes + " bytes of texts");
        }
    }
}
