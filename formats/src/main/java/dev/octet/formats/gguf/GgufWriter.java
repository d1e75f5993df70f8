package dev.octet.formats.gguf;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.file.EarlySync;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.SequencedMap;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Writes GGUF files, version 3. Where each tensor lies is known from the start, so several threads may write pieces of tensors in any order; only the pieces
 * that callers pass are in memory. The same input gives the same bytes.
 */
public final class GgufWriter implements AutoCloseable {
    private static final int VERSION = 3;

    /** ggml's GGML_MAX_NAME, with its closing zero. */
    private static final int MAX_NAME_BYTES = 63;

    private static final int ALIGNMENT = (int) GgufHeader.DEFAULT_ALIGNMENT;

    /** Bytes after which what was written is synced, while more is. */
    private static final long SYNCED_TOGETHER_BYTES = 64L << 20;

    private final AtomicFile file;
    private final EarlySync sync;
    private final Map<GgufTensor, Place> places;

    /** Where a tensor lies, and how many of its bytes were written. */
    private record Place(long start, AtomicLong written) {}

    private GgufWriter(AtomicFile file, Map<GgufTensor, Place> places) {
        this.file = file;
        this.sync = new EarlySync(file, SYNCED_TOGETHER_BYTES);
        this.places = places;
    }

    /** Provides the bytes of one tensor at a time. */
    @FunctionalInterface
    public interface Content {
        /** Writes the {@link GgufTensor#byteSize} bytes of a tensor in any number of pieces. Called once for each, in order. */
        void write(GgufTensor tensor, ByteSink sink) throws IOException;
    }

    /**
     * Writes a file atomically, tensor by tensor: a failure leaves an earlier file at {@code path} unchanged.
     *
     * @throws IllegalStateException when {@code content} writes more or fewer bytes than a tensor has
     * @see #create
     */
    public static void write(
            Path path, SequencedMap<String, GgufValue> metadata, List<GgufTensor> tensors, Content content)
            throws IOException {
        try (GgufWriter writer = create(path, metadata, tensors)) {
            for (GgufTensor t : tensors) {
                content.write(t, new InSequence(writer, t));
            }
            writer.commit();
        }
    }

    /** Pieces of a tensor one behind the other. */
    private static final class InSequence implements ByteSink {
        private final GgufWriter writer;
        private final GgufTensor tensor;
        private long at;

        InSequence(GgufWriter writer, GgufTensor tensor) {
            this.writer = writer;
            this.tensor = tensor;
        }

        @Override
        public void write(MemorySegment bytes) throws IOException {
            writer.write(tensor, at, bytes);
            at += bytes.byteSize();
        }
    }

    /**
     * Starts a file, whose earlier namesake stays unchanged until {@link #commit}.
     *
     * @param metadata keys in the order in which they are written; {@code general.alignment} is left out: tensors lie at multiples of 32
     * @param tensors in the order in which they lie in the file
     * @throws UnsupportedModelException when the name of a tensor is longer than ggml can read, or there twice
     * @throws IllegalArgumentException when {@code metadata} has {@code general.alignment}
     * @throws IOException when there is no space or no permission
     */
    public static GgufWriter create(Path path, SequencedMap<String, GgufValue> metadata, List<GgufTensor> tensors)
            throws IOException {
        if (metadata.containsKey(GgufHeader.ALIGNMENT_KEY)) {
            throw new IllegalArgumentException(GgufHeader.ALIGNMENT_KEY + " is always " + ALIGNMENT + ": leave it out");
        }
        requireWritable(tensors);
        byte[] header = header(metadata, tensors);
        Map<GgufTensor, Place> places = new HashMap<>();
        long bytes = header.length;
        for (GgufTensor t : tensors) {
            places.put(t, new Place(bytes, new AtomicLong()));
            bytes = Math.addExact(bytes, padded(t.byteSize()));
        }
        AtomicFile file = AtomicFile.create(path);
        GgufWriter writer = new GgufWriter(file, places);
        try {
            file.expect(bytes);
            file.write(MemorySegment.ofArray(header));
            for (GgufTensor t : tensors) {
                long size = t.byteSize();
                writer.put(
                        writer.place(t).start() + size, MemorySegment.ofArray(new byte[(int) (padded(size) - size)]));
            }
            return writer;
        } catch (IOException | RuntimeException e) {
            file.close();
            throw e;
        }
    }

    private Place place(GgufTensor tensor) {
        Place place = places.get(tensor);
        if (place == null) {
            throw new IllegalArgumentException(tensor + " is none of the file's");
        }
        return place;
    }

    private void put(long position, MemorySegment bytes) throws IOException {
        if (bytes.heapBase().isEmpty()) {
            file.write(position, bytes);
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment memory = arena.allocate(Math.max(1, bytes.byteSize())).asSlice(0, bytes.byteSize());
            file.write(position, memory.copyFrom(bytes));
        }
    }

    /**
     * Writes a piece of a tensor. Several threads may write at once, to different places.
     *
     * @param offset of the piece in the tensor, bytes
     * @throws IllegalStateException when it reaches beyond the tensor
     * @throws IOException when there is no space
     */
    public void write(GgufTensor tensor, long offset, MemorySegment bytes) throws IOException {
        Place place = place(tensor);
        if (offset + bytes.byteSize() > tensor.byteSize()) {
            throw wrongSize(tensor, offset + bytes.byteSize());
        }
        put(place.start() + offset, bytes);
        sync.wrote(bytes.byteSize());
        place.written().addAndGet(bytes.byteSize());
    }

    private static IllegalStateException wrongSize(GgufTensor tensor, long written) {
        return new IllegalStateException(
                tensor + " takes " + tensor.byteSize() + " bytes, its source wrote " + written);
    }

    /**
     * Makes the file durable and visible under its name.
     *
     * @throws IllegalStateException when fewer bytes of a tensor were written than it has
     */
    public void commit() throws IOException {
        for (Map.Entry<GgufTensor, Place> e : places.entrySet()) {
            long written = e.getValue().written().get();
            if (written != e.getKey().byteSize()) {
                throw wrongSize(e.getKey(), written);
            }
        }
        sync.finish();
        file.commit();
    }

    /** Removes what was written unless {@link #commit} succeeded. */
    @Override
    public void close() throws IOException {
        sync.close();
        file.close();
    }

    private static void requireWritable(List<GgufTensor> tensors) {
        Set<String> names = new HashSet<>();
        for (GgufTensor t : tensors) {
            int bytes = t.name().getBytes(StandardCharsets.UTF_8).length;
            if (bytes > MAX_NAME_BYTES) {
                throw new UnsupportedModelException(
                        "the name has " + bytes + " bytes, ggml reads at most " + MAX_NAME_BYTES,
                        "tensor '" + t.name() + "'",
                        "shorten the name");
            }
            if (!names.add(t.name())) {
                throw new UnsupportedModelException(
                        "there are two tensors of this name", "tensor '" + t.name() + "'", "give each its own name");
            }
        }
    }

    private static long padded(long bytes) {
        return Math.ceilDiv(bytes, (long) ALIGNMENT) * ALIGNMENT;
    }

    private static byte[] header(SequencedMap<String, GgufValue> metadata, List<GgufTensor> tensors) {
        Little out = new Little();
        out.writeBytes(GgufHeader.MAGIC);
        out.u32(VERSION);
        out.u64(tensors.size());
        out.u64(metadata.size());
        metadata.forEach((key, value) -> {
            out.text(key);
            out.u32(value.kind().id());
            out.value(value);
        });
        long offset = 0;
        for (GgufTensor t : tensors) {
            out.text(t.name());
            out.u32(t.shape().rank());
            for (int d = t.shape().rank() - 1; d >= 0; d--) {
                out.u64(t.shape().dim(d));
            }
            out.u32(t.type().id());
            out.u64(offset);
            offset = Math.addExact(offset, padded(t.byteSize()));
        }
        out.writeBytes(new byte[(int) (padded(out.size()) - out.size())]);
        return out.toByteArray();
    }

    /** Little-endian bytes in memory. */
    private static final class Little extends ByteArrayOutputStream {
        private final ByteBuffer word = ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);

        void u32(int value) {
            word.putInt(0, value);
            write(word.array(), 0, Integer.BYTES);
        }

        void u64(long value) {
            word.putLong(0, value);
            write(word.array(), 0, Long.BYTES);
        }

        void text(String text) {
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            u64(bytes.length);
            writeBytes(bytes);
        }

        void value(GgufValue value) {
            switch (value) {
                case GgufValue.Whole w -> whole(w);
                case GgufValue.Real r -> {
                    if (r.kind() == GgufKind.F32) {
                        u32(Float.floatToRawIntBits((float) r.number()));
                    } else {
                        u64(Double.doubleToRawLongBits(r.number()));
                    }
                }
                case GgufValue.Truth t -> write(t.value() ? 1 : 0);
                case GgufValue.Text t -> text(t.text());
                case GgufValue.Sequence s -> {
                    u32(s.element().id());
                    u64(s.values().size());
                    s.values().forEach(this::value);
                }
            }
        }

        private void whole(GgufValue.Whole w) {
            switch (w.kind()) {
                case U8, I8 -> write((int) w.number());
                case U16, I16 -> {
                    write((int) w.number());
                    write((int) (w.number() >> Byte.SIZE));
                }
                case U32, I32 -> u32((int) w.number());
                case U64, I64 -> u64(w.number());
                case F32, F64, BOOL, STRING, ARRAY -> throw new IllegalStateException(w.kind() + " is no whole number");
            }
        }
    }
}
