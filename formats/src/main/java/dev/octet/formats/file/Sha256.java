package dev.octet.formats.file;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/** SHA-256 (FIPS 180-4), in lower-case hexadecimal. */
public final class Sha256 {
    private static final int CHUNK = 1 << 20;

    private Sha256() {}

    /**
     * Digest of a file's bytes.
     *
     * @throws IOException when the file cannot be read
     */
    public static String of(Path file) throws IOException {
        try (InputStream in = Files.newInputStream(file)) {
            return copy(in, OutputStream.nullOutputStream());
        }
    }

    /**
     * Copies a stream to its end.
     *
     * @return digest of the copied bytes
     * @throws IOException when reading or writing fails
     */
    static String copy(InputStream in, OutputStream out) throws IOException {
        MessageDigest digest = newDigest();
        byte[] chunk = new byte[CHUNK];
        for (int n = in.read(chunk); n >= 0; n = in.read(chunk)) {
            digest.update(chunk, 0, n);
            out.write(chunk, 0, n);
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    /** Digest of bytes. */
    public static String of(byte[] bytes) {
        return HexFormat.of().formatHex(newDigest().digest(bytes));
    }

    /** Digest of texts; it depends on where one text ends and the next begins. */
    public static String of(String... parts) {
        MessageDigest digest = newDigest();
        for (String part : parts) {
            byte[] bytes = part.getBytes(StandardCharsets.UTF_8);
            digest.update((bytes.length + ":").getBytes(StandardCharsets.UTF_8));
            digest.update(bytes);
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    private static MessageDigest newDigest() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
    }
}
