package dev.octet.trainer.gemm;

import dev.octet.formats.error.UnavailableException;
import java.io.IOException;
import java.io.InputStream;
import java.net.JarURLConnection;
import java.net.URL;
import java.net.URLConnection;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.HexFormat;
import java.util.Locale;
import java.util.jar.JarEntry;
import java.util.zip.CRC32;

/**
 * Libraries that lie in a jar on the class path, brought to a folder where the system's loader finds them.
 *
 * <p>A file is called by the checksum its jar has of it, written beside and moved into place: a folder shared by several processes
 * never shows half a file. One that is there is used only if its length and checksum are those of the jar.
 */
final class NativeFiles {
    private static final int CHUNK = 1 << 20;

    private NativeFiles() {}

    /** The system and processor as natives' jars spell them: {@code linux-x86_64}. */
    static String platform() {
        String os = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String arch = System.getProperty("os.arch");
        return (os.startsWith("linux") ? "linux" : os.replace(' ', '-'))
                + "-"
                + (arch.equals("amd64") ? "x86_64" : arch);
    }

    /**
     * Unpacks resources of one jar into one folder below {@code cache}.
     *
     * @param folder path of the resources in the jar, ending in a slash
     * @param names names of the files; the first one's checksum names the folder
     * @return the folder
     * @throws UnavailableException when the jar is not on the class path
     * @throws IOException when the folder cannot be written
     */
    static Path unpack(Path cache, String folder, String... names) throws IOException {
        JarEntry first = connect(folder + names[0]).getJarEntry();
        Path to = cache.resolve(names[0] + "-" + HexFormat.of().toHexDigits((int) first.getCrc()));
        Files.createDirectories(to);
        for (String name : names) {
            JarURLConnection connection = connect(folder + name);
            JarEntry entry = connection.getJarEntry();
            Path file = to.resolve(name);
            if (!isWhole(file, entry)) {
                try (InputStream in = connection.getInputStream()) {
                    write(in, file);
                }
            }
        }
        return to;
    }

    private static JarURLConnection connect(String resource) throws IOException {
        URL url = NativeFiles.class.getClassLoader().getResource(resource);
        if (url == null) {
            url = ClassLoader.getSystemResource(resource);
        }
        if (url == null) {
            throw new UnavailableException(
                    "there is no native library for " + platform(),
                    "class path, resource " + resource,
                    "put the jar with it on the class path, or go on in Java");
        }
        URLConnection connection = url.openConnection();
        if (connection instanceof JarURLConnection jar) {
            return jar;
        }
        throw new UnavailableException(
                "the native library lies in no jar", url.toString(), "put the jar itself on the class path");
    }

    private static boolean isWhole(Path file, JarEntry entry) throws IOException {
        if (!Files.isRegularFile(file) || Files.size(file) != entry.getSize()) {
            return false;
        }
        CRC32 crc = new CRC32();
        try (InputStream in = Files.newInputStream(file)) {
            byte[] chunk = new byte[CHUNK];
            for (int n = in.read(chunk); n >= 0; n = in.read(chunk)) {
                crc.update(chunk, 0, n);
            }
        }
        return crc.getValue() == entry.getCrc();
    }

    private static void write(InputStream in, Path file) throws IOException {
        Path folder = file.toAbsolutePath().getParent();
        Path temporary = Files.createTempFile(folder, file.getFileName().toString(), ".part");
        try {
            Files.copy(in, temporary, StandardCopyOption.REPLACE_EXISTING);
            try {
                Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE);
            } catch (AtomicMoveNotSupportedException e) {
                throw new FileSystemException(file.toString(), null, "the file system cannot move files: " + e);
            }
        } finally {
            Files.deleteIfExists(temporary);
        }
    }
}
