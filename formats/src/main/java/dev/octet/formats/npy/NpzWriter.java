package dev.octet.formats.npy;

import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.channels.Channels;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.util.HashSet;
import java.util.Set;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/**
 * Writes a {@code .npz} array by array. {@link #commit()} gives the file its name; closing without it leaves an earlier file unchanged.
 * Equal arrays give equal bytes, because members have no time.
 */
public final class NpzWriter implements AutoCloseable {
    private static final int CHUNK_BYTES = 1 << 16;
    /** The earliest time in a zip. */
    private static final LocalDateTime NO_TIME = LocalDateTime.of(1980, 1, 1, 0, 0);

    private final AtomicFile file;
    private final ZipOutputStream zip;
    private final boolean deflated;
    private final Set<String> names = new HashSet<>();

    private NpzWriter(AtomicFile file, boolean deflated) {
        this.file = file;
        this.zip = new ZipOutputStream(Channels.newOutputStream(file));
        this.deflated = deflated;
    }

    /** Starts a file of arrays stored as they are, as {@code numpy.savez} makes it. */
    public static NpzWriter stored(Path path) throws IOException {
        return new NpzWriter(AtomicFile.create(path), false);
    }

    /** Starts a file of compressed arrays, as {@code numpy.savez_compressed} makes it. */
    public static NpzWriter deflated(Path path) throws IOException {
        return new NpzWriter(AtomicFile.create(path), true);
    }

    /**
     * Adds an array under its name.
     *
     * @throws IllegalArgumentException when an array of this name exists already
     * @throws dev.octet.formats.error.UnsupportedModelException when NumPy has no such element type
     * @throws IOException when it cannot be written
     */
    public void add(Tensor tensor) throws IOException {
        if (!names.add(tensor.name())) {
            throw new IllegalArgumentException("there is an array '" + tensor.name() + "' already");
        }
        byte[] header = NpyHeader.toBytes(tensor.spec());
        ZipEntry entry = new ZipEntry(tensor.name() + ".npy");
        entry.setTimeLocal(NO_TIME);
        if (!deflated) {
            // A stored member has its size and checksum before its bytes.
            entry.setMethod(ZipEntry.STORED);
            entry.setSize(header.length + tensor.bytes().byteSize());
            entry.setCrc(crc(header, tensor.bytes()));
        }
        zip.putNextEntry(entry);
        zip.write(header);
        byte[] chunk = new byte[CHUNK_BYTES];
        for (long at = 0; at < tensor.bytes().byteSize(); at += chunk.length) {
            zip.write(chunk, 0, copy(tensor.bytes(), at, chunk));
        }
        zip.closeEntry();
    }

    private static long crc(byte[] header, MemorySegment bytes) {
        CRC32 crc = new CRC32();
        crc.update(header);
        byte[] chunk = new byte[CHUNK_BYTES];
        for (long at = 0; at < bytes.byteSize(); at += chunk.length) {
            crc.update(chunk, 0, copy(bytes, at, chunk));
        }
        return crc.getValue();
    }

    private static int copy(MemorySegment bytes, long at, byte[] chunk) {
        int n = (int) Math.min(chunk.length, bytes.byteSize() - at);
        MemorySegment.copy(bytes, ValueLayout.JAVA_BYTE, at, chunk, 0, n);
        return n;
    }

    /** Makes the file durable and visible under its name. */
    public void commit() throws IOException {
        zip.finish();
        zip.flush();
        file.commit();
    }

    /** Removes the file unless {@link #commit()} succeeded. */
    @Override
    public void close() throws IOException {
        file.close();
    }
}
