package dev.octet.converter.runtime;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.NoSpaceException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;

/**
 * Tensors in a file, written in sequence and read again in the same order. Not thread-safe.
 *
 * <p>Each tensor is its ONNX type number and rank (I32), its dimensions (I64) and its bytes, all little-endian.
 */
final class ActivationSpill implements AutoCloseable {
    private static final int MAX_RANK = 64;
    private static final long CHUNK = 1L << 30;

    private final Path path;
    private final FileChannel channel;

    private ActivationSpill(Path path, FileChannel channel) {
        this.path = path;
        this.channel = channel;
    }

    /**
     * An empty spill for writing, then reading; the file disappears when the spill is closed or the process ends, even if killed (except on
     * Windows, where a killed process leaves the file).
     *
     * @throws IOException when the folder does not exist or is not writable
     */
    static ActivationSpill temporary(Path folder) throws IOException {
        Path path = Files.createTempFile(folder, "octet-values-", ".tmp");
        return new ActivationSpill(
                path,
                FileChannel.open(
                        path, StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.DELETE_ON_CLOSE));
    }

    /** An empty spill for writing, under a name that {@link #publish} changes; overwrites an existing file. */
    static ActivationSpill create(Path part) throws IOException {
        Files.deleteIfExists(part);
        return new ActivationSpill(
                part,
                FileChannel.open(
                        part, StandardOpenOption.CREATE_NEW, StandardOpenOption.READ, StandardOpenOption.WRITE));
    }

    /** Opens a published spill for reading. */
    static ActivationSpill open(Path path) throws IOException {
        return new ActivationSpill(path, FileChannel.open(path, StandardOpenOption.READ));
    }

    /** Syncs the file to disk and renames it; the reading position stays. */
    void publish(Path target) throws IOException {
        channel.force(true);
        Files.move(path, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Bytes written so far. */
    long size() throws IOException {
        return channel.size();
    }

    /**
     * Appends a tensor.
     *
     * @throws NoSpaceException naming the file when the disk is full
     */
    void write(Tensor t) throws IOException {
        ByteBuffer head = ByteBuffer.allocate(8 + 8 * t.shape().rank()).order(ByteOrder.LITTLE_ENDIAN);
        head.putInt(t.dtype().onnxId()).putInt(t.shape().rank());
        for (long d : t.shape().toArray()) {
            head.putLong(d);
        }
        try {
            writeAll(head.flip());
            for (long from = 0; from < t.bytes().byteSize(); from += CHUNK) {
                writeAll(t.bytes()
                        .asSlice(from, Math.min(CHUNK, t.bytes().byteSize() - from))
                        .asByteBuffer());
            }
        } catch (IOException e) {
            throw NoSpaceException.of(path, channel.size() + t.bytes().byteSize(), e);
        }
    }

    private void writeAll(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    /** Moves the reading position to the first tensor. */
    void rewind() throws IOException {
        channel.position(0);
    }

    /**
     * Reads the next tensor, off the heap.
     *
     * @throws InvalidDataException when there is no next tensor, or the file is damaged
     */
    Tensor read(String name) throws IOException {
        ByteBuffer head = filled(ByteBuffer.allocate(8));
        int type = head.getInt();
        int rank = head.getInt();
        DType dtype = DType.ofOnnxId(type).orElseThrow(() -> damaged("type " + type));
        if (rank < 0 || rank > MAX_RANK) {
            throw damaged("rank " + rank);
        }
        ByteBuffer dims = filled(ByteBuffer.allocate(8 * rank));
        long[] shape = new long[rank];
        for (int i = 0; i < rank; i++) {
            shape[i] = dims.getLong();
            if (shape[i] < 0) {
                throw damaged("dimension " + shape[i]);
            }
        }
        TensorSpec spec = spec(name, dtype, shape);
        if (spec.byteSize() > channel.size() - channel.position()) {
            throw damaged("a tensor of " + spec.byteSize() + " bytes");
        }
        Tensor t = Tensor.allocate(Arena.ofAuto(), spec); // lives as long as the batch that reads it
        for (long from = 0; from < spec.byteSize(); from += CHUNK) {
            ByteBuffer bytes = t.bytes()
                    .asSlice(from, Math.min(CHUNK, spec.byteSize() - from))
                    .asByteBuffer();
            filled(bytes);
        }
        return t;
    }

    private TensorSpec spec(String name, DType dtype, long[] shape) {
        try {
            return new TensorSpec(name, dtype, Shape.of(shape));
        } catch (ArithmeticException | IllegalArgumentException e) { // beyond 2^63 elements; a type without a width
            throw damaged("a tensor of " + dtype + " " + Arrays.toString(shape));
        }
    }

    private ByteBuffer filled(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            if (channel.read(bytes) < 0) {
                throw damaged("they end early");
            }
        }
        return bytes.flip().order(ByteOrder.LITTLE_ENDIAN);
    }

    private InvalidDataException damaged(String what) {
        return new InvalidDataException(
                "the values of an interrupted run are damaged: " + what,
                path.toString(),
                "give --force to restart the calibration");
    }

    /** Closes and removes an unpublished spill. */
    void discard() throws IOException {
        close();
        Files.deleteIfExists(path);
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
