package dev.octet.formats.npy;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.zip.ZipEntry;
import java.util.zip.ZipException;
import java.util.zip.ZipFile;

/**
 * {@code .npz}: named arrays in a zip archive (stored or deflated, 32- or 64-bit), each read on demand, as a whole or row by row. Members
 * whose name does not end in {@code .npy} are ignored. Several threads may read different arrays.
 */
public final class NpzFile implements AutoCloseable {
    private static final String SUFFIX = ".npy";
    /** Maximum of deflate: 258 bytes from 2 bits, rounded up. */
    private static final long MAX_DEFLATE_RATIO = 1032;

    private final Path path;
    private final ZipFile zip;
    private final NpyLimits limits;
    private final Map<String, ZipEntry> entries;

    private NpzFile(Path path, ZipFile zip, NpyLimits limits, Map<String, ZipEntry> entries) {
        this.path = path;
        this.zip = zip;
        this.limits = limits;
        this.entries = entries;
    }

    /** Opens with {@link NpyLimits#DEFAULT}. */
    public static NpzFile open(Path path) throws IOException {
        return open(path, NpyLimits.DEFAULT);
    }

    /**
     * Reads the list of arrays.
     *
     * @throws InvalidDataException when the file is not a zip archive, names an array twice, has too many arrays, or an array claims more
     *     bytes than its compressed size allows
     * @throws IOException when it cannot be read
     */
    public static NpzFile open(Path path, NpyLimits limits) throws IOException {
        if (!Files.exists(path)) {
            throw new NoSuchFileException(path.toString());
        }
        ZipFile zip = openZip(path);
        boolean opened = false;
        try {
            NpzFile file = new NpzFile(path, zip, limits, entries(zip, path, limits));
            opened = true;
            return file;
        } finally {
            if (!opened) {
                zip.close();
            }
        }
    }

    private static ZipFile openZip(Path path) throws IOException {
        try {
            return new ZipFile(path.toFile());
        } catch (ZipException | EOFException e) {
            throw new InvalidDataException(
                    "the file is not a zip archive, as .npz files are: " + e.getMessage(),
                    path.toString(),
                    "write it with numpy.savez or numpy.savez_compressed",
                    e);
        }
    }

    private static Map<String, ZipEntry> entries(ZipFile zip, Path path, NpyLimits limits) {
        if (zip.size() > limits.maxArrays()) {
            throw malformed("the archive has " + zip.size() + " members, the limit is " + limits.maxArrays(), path);
        }
        Map<String, ZipEntry> entries = new LinkedHashMap<>();
        for (Enumeration<? extends ZipEntry> e = zip.entries(); e.hasMoreElements(); ) {
            ZipEntry entry = e.nextElement();
            if (!entry.getName().endsWith(SUFFIX)) {
                continue;
            }
            String name = entry.getName().substring(0, entry.getName().length() - SUFFIX.length());
            if (entries.put(name, entry) != null) {
                throw malformed("the archive has two arrays '" + name + "'", path);
            }
            if (entry.getSize() / MAX_DEFLATE_RATIO > entry.getCompressedSize()) {
                throw malformed(
                        "array '" + name + "' claims " + entry.getSize() + " bytes out of " + entry.getCompressedSize()
                                + "; deflate compresses at most 1032 times",
                        path);
            }
        }
        return entries;
    }

    private static InvalidDataException malformed(String what, Path path) {
        return new InvalidDataException(what, path.toString(), "write the file again with numpy.savez");
    }

    /** Names of the arrays in the order of the file, without {@code .npy}. */
    public Set<String> names() {
        return Collections.unmodifiableSet(entries.keySet());
    }

    /**
     * Element type and shape of one array; reads its header only.
     *
     * @throws InvalidDataException when there is no such array or it is damaged
     * @throws IOException when it cannot be read
     */
    public TensorSpec spec(String name) throws IOException {
        try (NpyReader reader = reader(name)) {
            return reader.spec();
        }
    }

    /**
     * One array, whole, in memory of {@code arena}; see {@link NpyReader#readAll}.
     *
     * @throws InvalidDataException when there is no such array, it is damaged or over a limit
     * @throws IOException when it cannot be read
     */
    public Tensor read(String name, Arena arena) throws IOException {
        try (NpyReader reader = reader(name)) {
            return reader.readAll(arena);
        }
    }

    /**
     * Rows {@code first} to {@code first + count - 1} of one array. Each call inflates from the start; to read all rows, use a {@link
     * #reader}.
     */
    public Tensor read(String name, long first, long count, Arena arena) throws IOException {
        try (NpyReader reader = reader(name)) {
            reader.skip(first);
            return reader.read(count, arena);
        }
    }

    /**
     * A reader of one array, row by row; close it before this file.
     *
     * @throws InvalidDataException when there is no such array or its header is damaged
     * @throws IOException when it cannot be read
     */
    public NpyReader reader(String name) throws IOException {
        ZipEntry entry = entries.get(name);
        if (entry == null) {
            throw new InvalidDataException(
                    "there is no array '" + name + "', only " + names(),
                    path.toString(),
                    "name the array as it is used: numpy.savez(file, " + name + "=...)");
        }
        InputStream in = openEntry(entry);
        boolean opened = false;
        try {
            NpyReader reader =
                    new NpyReader(in, name, path + ", array '" + name + "'", limits, entry.getSize(), entry.getCrc());
            opened = true;
            return reader;
        } finally {
            if (!opened) {
                in.close();
            }
        }
    }

    private InputStream openEntry(ZipEntry entry) throws IOException {
        try {
            return zip.getInputStream(entry);
        } catch (ZipException | EOFException e) {
            throw new InvalidDataException(
                    "the archive is damaged: " + e.getMessage(),
                    path + ", member " + entry.getName(),
                    "write the file again, or copy it again",
                    e);
        }
    }

    @Override
    public void close() throws IOException {
        zip.close();
    }
}
