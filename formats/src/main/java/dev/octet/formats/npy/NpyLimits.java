package dev.octet.formats.npy;

/**
 * Limits of a file's claims, against files that exhaust memory.
 *
 * @param maxHeaderBytes longest array header in bytes
 * @param maxRank most dimensions of one array
 * @param maxArrays most members of one {@code .npz}
 * @param maxReadBytes most bytes that one call reads into memory; a longer array can be read in slices
 */
public record NpyLimits(int maxHeaderBytes, int maxRank, int maxArrays, long maxReadBytes) {
    /** The maximum of version 1.0; headers of arrays without fields have about 128 bytes. */
    public static final int MAX_HEADER_BYTES = 65_535;

    /** NumPy 2's own limit. */
    public static final int MAX_RANK = 64;

    /** The maximum of a zip without 64-bit extensions. */
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
