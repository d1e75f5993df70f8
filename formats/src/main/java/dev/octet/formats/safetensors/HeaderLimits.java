package dev.octet.formats.safetensors;

/**
 * Limits of a header, against files that exhaust memory. {@link #DEFAULT} fits every file of the reference writer with names shorter than
 * 64 Ki characters and tensors of rank 255 at most.
 *
 * @param maxHeaderBytes longest header in bytes, padding included
 * @param maxNameChars longest tensor name or metadata key in UTF-16 units
 * @param maxRank most dimensions of one tensor
 * @param maxNesting deepest JSON nesting, the header's own object being 1; only unknown fields can nest deeper than 3
 */
public record HeaderLimits(long maxHeaderBytes, int maxNameChars, int maxRank, int maxNesting) {
    /** The reference implementation's limit, applied by its reader and its writer (tensor.rs, MAX_HEADER_SIZE). */
    public static final long MAX_HEADER_BYTES = 100_000_000;

    /** Octet's own limit; names in use are below 300. */
    public static final int MAX_NAME_CHARS = 65_535;

    /** Octet's own limit; NumPy and PyTorch stop at 64. */
    public static final int MAX_RANK = 255;

    /** The reference implementation's limit: its JSON parser refuses the 128th level. */
    public static final int MAX_NESTING = 127;

    /** The limits of the constants above. */
    public static final HeaderLimits DEFAULT =
            new HeaderLimits(MAX_HEADER_BYTES, MAX_NAME_CHARS, MAX_RANK, MAX_NESTING);

    public HeaderLimits {
        if (maxHeaderBytes < 2 || maxNameChars < 1 || maxRank < 0 || maxNesting < 3) {
            throw new IllegalArgumentException("limits too small for any file: " + maxHeaderBytes + " header bytes, "
                    + maxNameChars + " name characters, rank " + maxRank + ", nesting " + maxNesting);
        }
    }

    /** A copy with this limit of the header length. */
    public HeaderLimits withMaxHeaderBytes(long value) {
        return new HeaderLimits(value, maxNameChars, maxRank, maxNesting);
    }

    /** A copy with this limit of the name length. */
    public HeaderLimits withMaxNameChars(int value) {
        return new HeaderLimits(maxHeaderBytes, value, maxRank, maxNesting);
    }

    /** A copy with this limit of the rank. */
    public HeaderLimits withMaxRank(int value) {
        return new HeaderLimits(maxHeaderBytes, maxNameChars, value, maxNesting);
    }

    /** A copy with this limit of the nesting depth. */
    public HeaderLimits withMaxNesting(int value) {
        return new HeaderLimits(maxHeaderBytes, maxNameChars, maxRank, value);
    }
}
