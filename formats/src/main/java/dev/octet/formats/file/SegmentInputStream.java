package dev.octet.formats.file;

import java.io.InputStream;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** Reads a segment from first to last byte, for parsers that need a stream. Not thread-safe. */
public final class SegmentInputStream extends InputStream {
    private final MemorySegment segment;
    private long position;

    /** Starts at the first byte of {@code segment}; closing the stream does nothing. */
    public SegmentInputStream(MemorySegment segment) {
        this.segment = segment;
    }

    @Override
    public int read() {
        return position == segment.byteSize() ? -1 : segment.get(ValueLayout.JAVA_BYTE, position++) & 0xFF;
    }

    @Override
    public int read(byte[] target, int offset, int length) {
        if (length == 0) {
            return 0;
        }
        int n = (int) Math.min(length, segment.byteSize() - position);
        if (n == 0) {
            return -1;
        }
        MemorySegment.copy(segment, ValueLayout.JAVA_BYTE, position, target, offset, n);
        position += n;
        return n;
    }

    @Override
    public int available() {
        return (int) Math.min(Integer.MAX_VALUE, segment.byteSize() - position);
    }
}
