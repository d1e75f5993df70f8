package dev.octet.formats.graph;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** An immutable string of bytes: ONNX text attributes (which need not be UTF-8) and fields Octet passes through untouched. */
public final class Bytes {
    public static final Bytes EMPTY = new Bytes(new byte[0]);

    private final byte[] bytes;

    private Bytes(byte[] bytes) {
        this.bytes = bytes;
    }

    public static Bytes of(byte[] bytes) {
        return bytes.length == 0 ? EMPTY : new Bytes(bytes.clone());
    }

    /** The UTF-8 bytes of {@code text}. */
    public static Bytes ofText(String text) {
        return of(text.getBytes(StandardCharsets.UTF_8));
    }

    public byte[] toArray() {
        return bytes.clone();
    }

    public int size() {
        return bytes.length;
    }

    public boolean isEmpty() {
        return bytes.length == 0;
    }

    /** Decoded as UTF-8; malformed bytes become U+FFFD. */
    public String text() {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    @Override
    public boolean equals(Object o) {
        return o instanceof Bytes b && Arrays.equals(bytes, b.bytes);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    @Override
    public String toString() {
        return text();
    }
}
