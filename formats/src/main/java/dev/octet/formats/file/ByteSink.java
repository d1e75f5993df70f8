package dev.octet.formats.file;

import java.io.IOException;
import java.lang.foreign.MemorySegment;

/** A destination of bytes, written in sequence. */
@FunctionalInterface
public interface ByteSink {
    /**
     * Takes all of {@code bytes}; the segment may be reused afterwards.
     *
     * @throws IOException when they cannot be written
     */
    void write(MemorySegment bytes) throws IOException;
}
