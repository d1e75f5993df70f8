package dev.octet.formats.npy;

import dev.octet.formats.tensor.Tensor;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;

/** {@code .npy}, one array in a file, through the reader and the header that {@code .npz} files are read and written with. */
final class NpyFile {
    private NpyFile() {}

    /** Opens with {@link NpyLimits#DEFAULT}. */
    static NpyReader open(Path path) throws IOException {
        return open(path, NpyLimits.DEFAULT);
    }

    /**
     * Opens a file; the array is named after it, without {@code .npy}.
     *
     * @throws dev.octet.formats.error.InvalidDataException when the file does not have this format
     * @throws IOException when the file cannot be read
     */
    static NpyReader open(Path path, NpyLimits limits) throws IOException {
        String file = String.valueOf(path.getFileName());
        String name = file.endsWith(".npy") ? file.substring(0, file.length() - 4) : file;
        var in = new BufferedInputStream(Files.newInputStream(path));
        boolean opened = false;
        try {
            NpyReader reader = new NpyReader(in, name, path.toString(), limits, Files.size(path), -1);
            opened = true;
            return reader;
        } finally {
            if (!opened) {
                in.close();
            }
        }
    }

    /**
     * Writes a file as NumPy 2 does, byte for byte.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when NumPy has no such element type (BF16, FP8, sub-byte)
     * @throws IOException when it cannot be written
     */
    static void write(Path path, Tensor tensor) throws IOException {
        byte[] header = NpyHeader.toBytes(tensor.spec());
        try (OutputStream file = Files.newOutputStream(path)) {
            file.write(header);
            file.write(tensor.bytes().toArray(ValueLayout.JAVA_BYTE));
        }
    }
}
