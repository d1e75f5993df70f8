package dev.octet.formats.model;

import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;

/**
 * A digest that identifies a checkpoint without reading all of it: SHA-256 over its configuration and, in alphabetical order of the
 * tensors' names, over name, type, shape and three samples of each tensor (the first, middle and last 4 KiB; all of a shorter tensor).
 * Independent of the distribution over files. It misses a change of a few numbers inside a large tensor, but further training changes all
 * numbers.
 */
public final class ModelFingerprint {
    /** Bytes of a sample. */
    public static final int SAMPLE = 4096;

    private ModelFingerprint() {}

    /**
     * The fingerprint, in lower-case hexadecimal.
     *
     * @param config the model's configuration, as text
     */
    public static String of(String config, Map<String, Tensor> tensors) {
        MessageDigest digest = newDigest();
        text(digest, config);
        for (Tensor t : new TreeMap<>(tensors).values()) {
            text(digest, t.spec().toString());
            MemorySegment bytes = t.bytes();
            long size = bytes.byteSize();
            if (size <= 3L * SAMPLE) {
                bytes(digest, bytes, 0, (int) size);
            } else {
                bytes(digest, bytes, 0, SAMPLE);
                bytes(digest, bytes, (size - SAMPLE) / 2, SAMPLE);
                bytes(digest, bytes, size - SAMPLE, SAMPLE);
            }
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    private static void text(MessageDigest digest, String text) {
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        digest.update((utf8.length + ":").getBytes(StandardCharsets.UTF_8));
        digest.update(utf8);
    }

    private static void bytes(MessageDigest digest, MemorySegment bytes, long from, int count) {
        digest.update(bytes.asSlice(from, count).toArray(ValueLayout.JAVA_BYTE));
    }

    private static MessageDigest newDigest() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-256", e);
        }
    }
}
