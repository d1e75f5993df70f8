package dev.octet.formats.file;

import dev.octet.formats.error.UnavailableException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.JarURLConnection;
import java.net.URL;
import java.net.URLConnection;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.zip.CRC32;
import java.util.zip.CheckedInputStream;
import org.jspecify.annotations.Nullable;

/**
 * Unpacks native libraries from a jar on the class path to a folder that only this user can write to.
 *
 * <p>A file is written under a temporary name and moved into place, so that processes that share the folder never see half a file. Its
 * SHA-256 is computed during unpacking and stored next to it. An existing file is used only if it still has that digest, and the length and
 * checksum of the jar's entry; otherwise it is unpacked again. Comparing with the jar's contents would not be safer, because the folder is
 * private, and takes five times as long: 0.44 s for oneDNN's 86 MiB instead of 0.09 s.
 *
 * <p>If the user's cache folder cannot be used, a temporary folder of this process replaces it.
 */
public final class NativeFiles {
    private static final System.Logger LOG = System.getLogger(NativeFiles.class.getName());

    /** Created once per process, if the cache folder cannot be used. */
    private static @Nullable Path temporary;

    private NativeFiles() {}

    /** Whether a resource exists. */
    public static boolean has(ClassLoader loader, String resource) {
        return loader.getResource(resource) != null;
    }

    /**
     * Unpacks resources of one jar into one folder below the user's cache folder.
     *
     * @param loader finds the resources
     * @param folder path of the resources in the jar, ending in a slash
     * @param names names of the files; the checksum of the first names the folder
     * @return the folder
     * @throws UnavailableException when the jar is not on the class path, or no folder is writable by this user only
     */
    public static Path unpack(ClassLoader loader, String folder, List<String> names) {
        return unpack(CacheFolder.path(), loader, folder, names);
    }

    /** As {@link #unpack(ClassLoader, String, List)}, in another cache folder. */
    public static Path unpack(Path cache, ClassLoader loader, String folder, List<String> names) {
        Path wanted = cache.resolve("native");
        IOException unusable;
        try {
            return unpackInto(PrivateFolder.open(wanted), loader, folder, names);
        } catch (IOException e) {
            unusable = e;
        }
        try {
            return unpackInto(temporary(unusable), loader, folder, names);
        } catch (IOException e) {
            e.addSuppressed(unusable);
            throw new UnavailableException(
                    "there is no private folder to unpack native libraries to: " + reason(unusable) + "; " + reason(e),
                    wanted + ", " + System.getProperty("java.io.tmpdir"),
                    "set XDG_CACHE_HOME to a folder that you can write to and other users cannot",
                    e);
        }
    }

    private static String reason(IOException e) {
        return e instanceof FileSystemException f && f.getReason() != null
                ? f.getFile() + " " + f.getReason()
                : e.toString();
    }

    private static synchronized Path temporary(IOException unusable) throws IOException {
        Path made = temporary;
        if (made == null) {
            made = PrivateFolder.temporary("octet-native");
            temporary = made;
            Path emptied = made;
            Runtime.getRuntime().addShutdownHook(new Thread(() -> delete(emptied), "octet-native-delete"));
            LOG.log(
                    System.Logger.Level.WARNING,
                    "native libraries are unpacked again at each start: {0}; set octet.cache or XDG_CACHE_HOME to use"
                            + " another folder",
                    reason(unusable));
        }
        return made;
    }

    private static void delete(Path folder) {
        try (var all = Files.walk(folder)) {
            for (Path path : new ArrayList<>(all.toList()).reversed()) {
                Files.deleteIfExists(path);
            }
        } catch (IOException e) {
            LOG.log(System.Logger.Level.DEBUG, "a temporary folder stays", e);
        }
    }

    private static Path unpackInto(Path base, ClassLoader loader, String folder, List<String> names)
            throws IOException {
        JarEntry first = connect(loader, folder + names.getFirst()).getJarEntry();
        Path to = PrivateFolder.open(
                base.resolve(names.getFirst() + "-" + HexFormat.of().toHexDigits((int) first.getCrc())));
        for (String name : names) {
            JarURLConnection connection = connect(loader, folder + name);
            JarEntry entry = connection.getJarEntry();
            Path file = to.resolve(name);
            if (!isWhole(file, entry)) {
                try (InputStream in = connection.getInputStream()) {
                    write(in, file);
                }
                if (!isWhole(file, entry)) {
                    throw new FileSystemException(file.toString(), null, "differs from the bytes written to it");
                }
            }
        }
        return to;
    }

    private static JarURLConnection connect(ClassLoader loader, String resource) throws IOException {
        URL url = loader.getResource(resource);
        if (url == null) {
            throw new UnavailableException(
                    "there is no native library for " + Platform.text(),
                    "class path, resource " + resource,
                    "put the library's jar on the class path, or use a platform that it supports");
        }
        URLConnection connection = url.openConnection();
        if (connection instanceof JarURLConnection jar) {
            return jar;
        }
        throw new UnavailableException(
                "the native library is not in a jar", url.toString(), "put the jar itself on the class path");
    }

    private static Path digestOf(Path file) {
        return file.resolveSibling(file.getFileName() + ".sha256");
    }

    private static boolean isWhole(Path file, JarEntry entry) throws IOException {
        Path digest = digestOf(file);
        if (!Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)
                || Files.size(file) != entry.getSize()
                || !Files.isRegularFile(digest, LinkOption.NOFOLLOW_LINKS)) {
            return false;
        }
        CRC32 crc = new CRC32();
        try (InputStream in = new CheckedInputStream(Files.newInputStream(file), crc)) {
            String now = Sha256.copy(in, OutputStream.nullOutputStream());
            return crc.getValue() == entry.getCrc() && Files.readString(digest).equals(line(now, file));
        }
    }

    /** A line in the format of {@code sha256sum}. */
    private static String line(String sha256, Path file) {
        return sha256 + "  " + file.getFileName() + "\n";
    }

    private static void write(InputStream in, Path file) throws IOException {
        Path folder = file.resolveSibling("");
        Path part = Files.createTempFile(folder, file.getFileName().toString(), ".part");
        try {
            String sha256;
            try (OutputStream out = Files.newOutputStream(part)) {
                sha256 = Sha256.copy(in, out);
            }
            move(part, file);
            Path digest = Files.createTempFile(folder, file.getFileName().toString(), ".part");
            Files.writeString(digest, line(sha256, file));
            move(digest, digestOf(file));
        } finally {
            Files.deleteIfExists(part);
        }
    }

    private static void move(Path from, Path to) throws IOException {
        try {
            Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
        } catch (AtomicMoveNotSupportedException e) {
            throw new FileSystemException(to.toString(), null, "the file system cannot move files: " + e);
        }
    }
}
