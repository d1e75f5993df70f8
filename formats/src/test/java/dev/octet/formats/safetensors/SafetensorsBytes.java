package dev.octet.formats.safetensors;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/** Files put together by hand, byte for byte, so that a test can plant a fault. */
final class SafetensorsBytes {
    private final long headerBytes;
    private final byte[] header;
    private final byte[] data;

    SafetensorsBytes(long headerBytes, byte[] header, byte[] data) {
        this.headerBytes = headerBytes;
        this.header = header;
        this.data = data;
    }

    static SafetensorsBytes of(String json, int dataBytes) {
        byte[] header = json.getBytes(StandardCharsets.UTF_8);
        return new SafetensorsBytes(header.length, header, new byte[dataBytes]);
    }

    /** One tensor {@code a}: U8 [dims], data from 0 to {@code dataBytes}. */
    static SafetensorsBytes ofTensor(String dtype, String dims, int dataBytes) {
        return of(
                "{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + dims + "],\"data_offsets\":[0," + dataBytes + "]}}",
                dataBytes);
    }

    SafetensorsBytes withHeaderBytes(long value) {
        return new SafetensorsBytes(value, header, data);
    }

    byte[] toArray() {
        return ByteBuffer.allocate(8 + header.length + data.length)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putLong(headerBytes)
                .put(header)
                .put(data)
                .array();
    }

    SafetensorsHeader parse() {
        return parse(HeaderLimits.DEFAULT);
    }

    SafetensorsHeader parse(HeaderLimits limits) {
        return SafetensorsHeader.parse(MemorySegment.ofArray(toArray()), "test.safetensors", limits);
    }
}
