package dev.octet.formats.npy;

/**
 * What a file may claim before it is refused: protection against files made to exhaust memory.
 *
 * @param maxHeaderBytes longest array header in bytes
 * @param maxRank most dimensions of one array
 * @param maxArrays most members of one {@code .npz}
 * @param maxReadBytes most bytes read into memory by one call; a longer array can be read in slices
 */
public record NpyLimits(int maxHeaderBytes, int maxRank, int maxArrays, long maxReadBytes) {
    /** As long as a header of version 1.0 can be; those of arrays without fields have some 128 bytes. */
    public static final int MAX_HEADER_BYTES = 65_535;

    /** NumPy 2's own limit. */
    public static final int MAX_RANK = 64;

    /** As many members as a zip without 64-bit extensions can have. */
    public static final int MAX_ARRAYS = 65_535;

    /** 4 GiB. */
    public static final long MAX_READ_BYTES = 1L << 32;

    /** The limits of the constants above. */
    public static final NpyLimits DEFAULT = new NpyLimits(MAX_HEADER_BYTES, MAX_RANK, MAX_ARRAYS, MAX_READ_BYTES);

    public NpyLimits {
        if (maxHeaderBytes < 1 || maxRank < 0 || maxArrays < 0 || maxReadBytes < 0) {
            throw new IllegalArgumentException("negative limits");
        }
    }
}
