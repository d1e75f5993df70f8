package dev.octet.formats.torch;

import dev.octet.formats.file.ByteSink;
import dev.octet.formats.file.PartFile;
import dev.octet.formats.safetensors.SafetensorsWriter;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;

/** A new file of one archive or several, written from front to back; it is there under its name when {@link #publish} has been called. */
public final class ArchivesFile implements ByteSink, AutoCloseable {
    private static final int HEADER_BYTES = 1 << 16;

    private final PartFile file;
    private final Arena arena = Arena.ofConfined();
    private final MemorySegment direct = arena.allocate(HEADER_BYTES);
    private long position;

    private ArchivesFile(PartFile file) {
        this.file = file;
    }

    /** Begins a file. */
    public static ArchivesFile create(Path path) throws IOException {
        // the size of a file follows from its tensors; the sizes of headers do not, so it is found while writing
        return new ArchivesFile(PartFile.create(path, 0));
    }

    /** Writes a file of one archive; returns its bytes. */
    public static long write(Path path, TorchArchive archive, SafetensorsWriter.Content content) throws IOException {
        try (ArchivesFile file = create(path)) {
            archive.write(content, file);
            file.publish();
            return file.position();
        }
    }

    /** Bytes written so far: where the next archive begins. */
    public long position() {
        return position;
    }

    @Override
    public void write(MemorySegment bytes) throws IOException {
        MemorySegment source = bytes;
        if (bytes.heapBase().isPresent()) {
            source = bytes.byteSize() > HEADER_BYTES
                    ? arena.allocate(bytes.byteSize()).copyFrom(bytes)
                    : direct.asSlice(0, bytes.byteSize()).copyFrom(bytes);
        }
        file.write(position, source);
        position += bytes.byteSize();
    }

    /** Gives the file its name. */
    public void publish() throws IOException {
        file.publishAs(position);
    }

    @Override
    public void close() throws IOException {
        arena.close();
        file.close();
    }
}
