package dev.octet.formats.gguf;

/**
 * Limits of a header, against files that exhaust memory or time. Counts are checked against the bytes of the file, too: an entry that claims
 * more than is left is refused before anything is allocated.
 *
 * @param maxTensors most tensors
 * @param maxKeys most keys of metadata
 * @param maxNesting deepest arrays of arrays
 * @param maxNameBytes longest name of a tensor or key in bytes
 */
public record GgufLimits(long maxTensors, long maxKeys, int maxNesting, int maxNameBytes) {
    /** ggml's limits where it has any (names of tensors: 64 bytes in ggml, of keys 65,535), otherwise Octet's own. */
    public static final GgufLimits DEFAULT = new GgufLimits(1 << 20, 1 << 16, 4, 65_535);

    public GgufLimits {
        if (maxTensors < 0 || maxKeys < 0 || maxNesting < 1 || maxNameBytes < 1) {
            throw new IllegalArgumentException("limits too small for any file: " + maxTensors + " tensors, " + maxKeys
                    + " keys, nesting " + maxNesting + ", " + maxNameBytes + " bytes of a name");
        }
    }
}
