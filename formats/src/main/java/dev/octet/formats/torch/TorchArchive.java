package dev.octet.formats.torch;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.pickle.Pickler;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.zip.CRC32;
import org.jspecify.annotations.Nullable;

/**
 * The bytes that {@code torch.save} writes of one tensor, alone or in a dict, or of an object without any: a zip archive of stored members. Its length is known before its tensor, which is written once, in
 * pieces; the sum of its bytes, which zip wants before them, goes into the directory behind them, as zip allows.
 *
 * <p>All numbers of sizes have 64 bits, so that an archive's length does not depend on them.
 */
public final class TorchArchive {
    private static final int ALIGNMENT = 64;
    /** Sizes and checksum follow the member, in a descriptor; names are UTF-8. */
    private static final int FLAGS = 0x0808;

    private static final int ZIP64_VERSION = 45;
    private static final int LOCAL_BYTES = 30;
    private static final int LOCAL_EXTRA_BYTES = 20;
    private static final int DESCRIPTOR_BYTES = 24;

    /** What the archive's members are called before their own names. */
    private static final String PREFIX = "archive/";

    private final byte[] pickle;
    private final @Nullable TensorSpec stored;

    private TorchArchive(byte[] pickle, @Nullable TensorSpec stored) {
        this.pickle = pickle;
        this.stored = stored;
    }

    /**
     * An archive of a tensor.
     *
     * @throws UnsupportedModelException when torch has no such elements
     */
    public static TorchArchive of(TensorSpec spec) {
        Pickler pickle = new Pickler();
        tensor(pickle, spec, spec.shape().elementCount(), strides(spec));
        return new TorchArchive(pickle.end(), spec);
    }

    /** An archive of a dict with a tensor under a key. */
    public static TorchArchive ofEntry(String key, TensorSpec spec) {
        return entry(key, spec, spec.shape().elementCount(), strides(spec), spec);
    }

    /** An archive of a dict with a tensor under a key that is one element everywhere, which alone is stored: all strides are 0. */
    public static TorchArchive ofRepeated(String key, TensorSpec spec) {
        return entry(
                key,
                spec,
                1,
                Collections.nCopies(spec.shape().rank(), 0L),
                new TensorSpec(spec.name(), spec.dtype(), Shape.of(1)));
    }

    /** An archive of an object without tensors. */
    public static TorchArchive ofObject(Pickler pickle) {
        return new TorchArchive(pickle.end(), null);
    }

    private static TorchArchive entry(
            String key, TensorSpec spec, long elements, List<Long> strides, TensorSpec stored) {
        Pickler pickle = new Pickler();
        pickle.dict().mark().text(key);
        tensor(pickle, spec, elements, strides);
        return new TorchArchive(pickle.items().end(), stored);
    }

    /** One member of the archive. */
    private record Member(String name, long at, long size, long crc) {}

    /**
     * Writes the archive.
     *
     * @param content writes the bytes of what is stored: the tensor, or the one element
     * @return bytes written
     */
    public long write(SafetensorsWriter.Content content, ByteSink sink) throws IOException {
        Out out = new Out(sink);
        out.member("data.pkl", pickle);
        out.member("byteorder", text("little"));
        if (stored != null) {
            out.storage(stored, content);
        }
        out.member("version", text("3\n"));
        out.directory();
        return out.at;
    }

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static void tensor(Pickler pickle, TensorSpec spec, long elements, List<Long> strides) {
        DType dtype = spec.dtype();
        String name = TorchTypes.name(dtype)
                .orElseThrow(() -> new UnsupportedModelException(
                        "torch has no tensors of " + dtype, spec.toString(), "dequantise the checkpoint first"));
        Optional<String> storage = TorchTypes.storage(dtype);
        pickle.global("torch._utils", storage.isPresent() ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3")
                .mark();
        pickle.mark().text("storage");
        if (storage.isPresent()) {
            pickle.global("torch", storage.get());
        } else {
            pickle.global("torch.storage", "UntypedStorage");
        }
        pickle.text("0")
                .text("cpu")
                .number(storage.isPresent() ? elements : elements * dtype.bits() / Byte.SIZE)
                .tuple()
                .persistent();
        pickle.number(0).tuple(dims(spec)).tuple(strides).bool(false);
        pickle.global("collections", "OrderedDict").emptyTuple().reduce();
        if (storage.isEmpty()) {
            pickle.global("torch", name);
        }
        pickle.tuple().reduce();
    }

    private static List<Long> dims(TensorSpec spec) {
        return Arrays.stream(spec.shape().toArray()).boxed().toList();
    }

    private static List<Long> strides(TensorSpec spec) {
        List<Long> strides = new ArrayList<>();
        long step = spec.shape().elementCount();
        for (long d : spec.shape().toArray()) {
            step = d == 0 ? 1 : step / d;
            strides.add(Math.max(1, step));
        }
        return strides;
    }

    /** Writes members and remembers where they lie. */
    private static final class Out {
        private final ByteSink sink;
        private final List<Member> members = new ArrayList<>();
        private long at;

        Out(ByteSink sink) {
            this.sink = sink;
        }

        private void write(byte[] bytes) throws IOException {
            sink.write(MemorySegment.ofArray(bytes));
            at += bytes.length;
        }

        void member(String name, byte[] bytes) throws IOException {
            long header = at;
            local(name);
            CRC32 crc = new CRC32();
            crc.update(bytes);
            write(bytes);
            end(name, header, bytes.length, crc.getValue());
        }

        void storage(TensorSpec spec, SafetensorsWriter.Content content) throws IOException {
            long header = at;
            String name = "data/0";
            local(name);
            CRC32 crc = new CRC32();
            long start = at;
            content.write(spec, bytes -> {
                for (long from = 0; from < bytes.byteSize(); from += 1 << 30) {
                    crc.update(bytes.asSlice(from, Math.min(1 << 30, bytes.byteSize() - from))
                            .asByteBuffer());
                }
                sink.write(bytes);
                at += bytes.byteSize();
            });
            if (at - start != spec.byteSize()) {
                throw new IllegalStateException(spec + " was written as " + (at - start) + " bytes");
            }
            end(name, header, spec.byteSize(), crc.getValue());
        }

        /** A member's header, padded so that its bytes lie on a border of 64, where they can be mapped. */
        private void local(String name) throws IOException {
            byte[] utf8 = (PREFIX + name).getBytes(StandardCharsets.UTF_8);
            int fixed = LOCAL_BYTES + utf8.length + LOCAL_EXTRA_BYTES + 4;
            int padding = (int) ((ALIGNMENT - (at + fixed) % ALIGNMENT) % ALIGNMENT);
            ByteBuffer header = little(fixed + padding);
            header.putInt(0x04034b50)
                    .putShort((short) ZIP64_VERSION)
                    .putShort((short) FLAGS)
                    .putShort((short) 0);
            header.putShort((short) 0).putShort((short) 0x21); // 1980-01-01
            header.putInt(0).putInt(-1).putInt(-1);
            header.putShort((short) utf8.length).putShort((short) (LOCAL_EXTRA_BYTES + 4 + padding));
            header.put(utf8);
            header.putShort((short) 1).putShort((short) 16).putLong(0).putLong(0);
            header.putShort((short) 0x4246).putShort((short) padding); // "FB", as torch pads
            write(all(header));
        }

        private void end(String name, long header, long size, long crc) throws IOException {
            ByteBuffer descriptor = little(DESCRIPTOR_BYTES);
            descriptor.putInt(0x08074b50).putInt((int) crc).putLong(size).putLong(size);
            write(all(descriptor));
            members.add(new Member(PREFIX + name, header, size, crc));
        }

        void directory() throws IOException {
            long start = at;
            for (Member m : members) {
                byte[] utf8 = m.name().getBytes(StandardCharsets.UTF_8);
                ByteBuffer entry = little(46 + utf8.length + 28);
                entry.putInt(0x02014b50).putShort((short) ZIP64_VERSION).putShort((short) ZIP64_VERSION);
                entry.putShort((short) FLAGS)
                        .putShort((short) 0)
                        .putShort((short) 0)
                        .putShort((short) 0x21);
                entry.putInt((int) m.crc()).putInt(-1).putInt(-1);
                entry.putShort((short) utf8.length).putShort((short) 28).putShort((short) 0);
                entry.putShort((short) 0).putShort((short) 0).putInt(0).putInt(-1);
                entry.put(utf8);
                entry.putShort((short) 1).putShort((short) 24);
                entry.putLong(m.size()).putLong(m.size()).putLong(m.at());
                write(all(entry));
            }
            long size = at - start;
            ByteArrayOutputStream end = new ByteArrayOutputStream();
            ByteBuffer end64 = little(56);
            end64.putInt(0x06064b50).putLong(44).putShort((short) ZIP64_VERSION).putShort((short) ZIP64_VERSION);
            end64.putInt(0)
                    .putInt(0)
                    .putLong(members.size())
                    .putLong(members.size())
                    .putLong(size)
                    .putLong(start);
            end.writeBytes(all(end64));
            ByteBuffer locator = little(20);
            locator.putInt(0x07064b50).putInt(0).putLong(at).putInt(1);
            end.writeBytes(all(locator));
            ByteBuffer last = little(22);
            last.putInt(0x06054b50).putInt(0).putShort((short) members.size()).putShort((short) members.size());
            last.putInt(-1).putInt(-1).putShort((short) 0);
            end.writeBytes(all(last));
            write(end.toByteArray());
        }

        private static byte[] all(ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.capacity()];
            buffer.clear().get(bytes);
            return bytes;
        }

        private static ByteBuffer little(int bytes) {
            return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
        }
    }
}
