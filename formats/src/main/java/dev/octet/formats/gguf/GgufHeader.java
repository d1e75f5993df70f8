package dev.octet.formats.gguf;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Optional;
import java.util.SequencedMap;

/**
 * The header of a GGUF file, versions 2 and 3, little-endian.
 *
 * <pre>
 * "GGUF", u32 version, u64 number of tensors, u64 number of keys
 * keys:    text key, u32 kind, value                 text: u64 bytes, UTF-8;  array: u32 kind, u64 number, values
 * tensors: text name, u32 rank, u64 dimensions (innermost first), u32 type, u64 offset from the start of the data
 * zeros to the next multiple of general.alignment (32), then the data; each tensor begins at a multiple of it
 * </pre>
 *
 * Source: ggml, docs/gguf.md.
 *
 * @param version 2 or 3
 * @param metadata all keys in the order of the file
 * @param entries all tensors in the order of their bytes
 * @param dataStart the first byte of the data
 * @param alignment of tensors in bytes
 */
public record GgufHeader(
        int version, SequencedMap<String, GgufValue> metadata, List<Entry> entries, long dataStart, long alignment) {
    /** The first four bytes of a file. */
    static final byte[] MAGIC = {'G', 'G', 'U', 'F'};

    static final String ALIGNMENT_KEY = "general.alignment";
    static final long DEFAULT_ALIGNMENT = 32;
    private static final long MAX_ALIGNMENT = 1 << 20;
    private static final String DAMAGED = "the file is damaged or its writer faulty: download or convert it again";

    /**
     * One tensor and its position.
     *
     * @param position its first byte, counted from the start of the file
     */
    public record Entry(GgufTensor tensor, long position) {}

    public GgufHeader {
        metadata = Collections.unmodifiableSequencedMap(new LinkedHashMap<>(metadata));
        entries = List.copyOf(entries);
    }

    /** Whether a file that begins with these bytes is one. */
    public static boolean isHead(byte[] head) {
        return head.length >= MAGIC.length
                && head[0] == MAGIC[0]
                && head[1] == MAGIC[1]
                && head[2] == MAGIC[2]
                && head[3] == MAGIC[3];
    }

    /** The value of a key; empty where it is absent. */
    public Optional<GgufValue> value(String key) {
        return Optional.ofNullable(metadata.get(key));
    }

    /**
     * Reads and checks a header; the data are not touched.
     *
     * @param file all bytes of the file, mapped or in memory
     * @param name the file's name in messages
     * @throws MalformedModelException when the file breaks a rule of the format
     * @throws UnsupportedModelException for another version, byte order or type of tensors
     */
    public static GgufHeader parse(MemorySegment file, String name, GgufLimits limits) {
        return new Parser(file, name, limits).parse();
    }

    /** Reads a file from front to back. */
    private static final class Parser {
        private final MemorySegment file;
        private final String name;
        private final GgufLimits limits;
        private long at;
        private long elements;
        private long textBytes;

        Parser(MemorySegment file, String name, GgufLimits limits) {
            this.file = file;
            this.name = name;
            this.limits = limits;
        }

        GgufHeader parse() {
            byte[] magic = new byte[(int) Math.min(MAGIC.length, file.byteSize())];
            MemorySegment.copy(file, ValueLayout.JAVA_BYTE, 0, magic, 0, magic.length);
            if (!isHead(magic)) {
                throw broken("the file does not begin with GGUF", 0, "give a .gguf file");
            }
            at = MAGIC.length;
            int version = u32("the version");
            if (version != 2 && version != 3) {
                boolean swapped = Integer.reverseBytes(version) == 2 || Integer.reverseBytes(version) == 3;
                throw new UnsupportedModelException(
                        swapped ? "the file is big-endian" : "GGUF version " + Integer.toUnsignedString(version),
                        where(MAGIC.length),
                        swapped
                                ? "convert the original model again for a little-endian machine"
                                : "versions 2 and 3 can be read; convert the original model with a current llama.cpp");
            }
            // name, rank and so on of a tensor take 24 bytes, a key and its kind 12
            long tensors = count("tensors", limits.maxTensors(), 24);
            long keys = count("keys", limits.maxKeys(), 12);
            SequencedMap<String, GgufValue> metadata = new LinkedHashMap<>();
            for (long k = 0; k < keys; k++) {
                long start = at;
                String key = text("key " + k, limits.maxNameBytes());
                if (metadata.put(key, value(kind("the kind of '" + key + "'"), key, 1)) != null) {
                    throw broken("the key '" + key + "' is there twice", start, DAMAGED);
                }
            }
            return withTensors(version, metadata, tensors);
        }

        private GgufHeader withTensors(int version, SequencedMap<String, GgufValue> metadata, long count) {
            long alignment = alignment(metadata);
            List<Entry> claims = new ArrayList<>();
            LinkedHashMap<String, GgufTensor> names = new LinkedHashMap<>();
            for (long t = 0; t < count; t++) {
                long start = at;
                GgufTensor tensor = tensor("tensor " + t);
                if (names.put(tensor.name(), tensor) != null) {
                    throw broken("the tensor '" + tensor.name() + "' is there twice", start, DAMAGED);
                }
                long offset = u64("the offset of '" + tensor.name() + "'");
                if (offset < 0 || offset % alignment != 0) {
                    throw broken(
                            "tensor '" + tensor.name() + "' begins at " + Long.toUnsignedString(offset)
                                    + ", not at a multiple of " + alignment,
                            at - 8,
                            DAMAGED);
                }
                claims.add(new Entry(tensor, offset));
            }
            long dataStart = Math.ceilDiv(at, alignment) * alignment;
            claims.sort(Comparator.comparingLong(Entry::position)
                    .thenComparingLong(e -> e.tensor().byteSize()));
            List<Entry> entries = new ArrayList<>();
            long end = 0;
            for (Entry claim : claims) {
                GgufTensor tensor = claim.tensor();
                if (claim.position() < end) {
                    throw broken("tensor '" + tensor.name() + "' overlaps the one before it", dataStart, DAMAGED);
                }
                if (dataStart > file.byteSize()
                        || claim.position() > file.byteSize() - dataStart
                        || tensor.byteSize() > file.byteSize() - dataStart - claim.position()) {
                    throw broken(
                            "tensor '" + tensor.name() + "' takes bytes " + claim.position() + ".."
                                    + Long.toUnsignedString(claim.position() + tensor.byteSize())
                                    + " of the data, the file has " + Math.max(0, file.byteSize() - dataStart)
                                    + " there",
                            Math.min(dataStart, file.byteSize()),
                            "the file is truncated or damaged: download it again");
                }
                end = claim.position() + tensor.byteSize();
                entries.add(new Entry(tensor, dataStart + claim.position()));
            }
            return new GgufHeader(version, metadata, entries, dataStart, alignment);
        }

        private long alignment(SequencedMap<String, GgufValue> metadata) {
            GgufValue given = metadata.get(ALIGNMENT_KEY);
            if (given == null) {
                return DEFAULT_ALIGNMENT;
            }
            if (given instanceof GgufValue.Whole w
                    && w.number() > 0
                    && w.number() <= MAX_ALIGNMENT
                    && Long.bitCount(w.number()) == 1) {
                return w.number();
            }
            throw broken(ALIGNMENT_KEY + " is not a power of two up to " + MAX_ALIGNMENT, 0, DAMAGED);
        }

        private GgufTensor tensor(String what) {
            long start = at;
            String tensor = text("the name of " + what, limits.maxNameBytes());
            int rank = u32("the rank of '" + tensor + "'");
            if (rank < 0 || rank > GgufTensor.MAX_RANK) {
                throw broken(
                        "tensor '" + tensor + "' has " + Integer.toUnsignedString(rank) + " dimensions, at most "
                                + GgufTensor.MAX_RANK + " are possible",
                        start,
                        DAMAGED);
            }
            long[] dims = new long[rank];
            for (int d = rank - 1; d >= 0; d--) { // the file has the innermost first
                dims[d] = u64("the dimensions of '" + tensor + "'");
            }
            int id = u32("the type of '" + tensor + "'");
            GgufType type = GgufType.of(id)
                    .orElseThrow(() -> new UnsupportedModelException(
                            "tensor '" + tensor + "' is of type " + Integer.toUnsignedString(id)
                                    + ", which is not known",
                            where(at - 4),
                            "known are " + GgufType.names()));
            Shape shape;
            try {
                shape = Shape.of(dims);
            } catch (IllegalArgumentException | ArithmeticException e) {
                throw broken("tensor '" + tensor + "' has no possible shape: " + e.getMessage(), start, DAMAGED);
            }
            try {
                GgufTensor made = new GgufTensor(tensor, shape, type);
                made.byteSize();
                return made;
            } catch (IllegalArgumentException e) {
                throw broken(String.valueOf(e.getMessage()), start, DAMAGED);
            } catch (ArithmeticException e) {
                throw broken("tensor '" + tensor + "' has no possible shape: " + e.getMessage(), start, DAMAGED);
            }
        }

        private GgufValue value(GgufKind kind, String key, int depth) {
            return switch (kind) {
                case U8 -> new GgufValue.Whole(kind, u8(key) & 0xff);
                case I8 -> new GgufValue.Whole(kind, u8(key));
                case U16 -> new GgufValue.Whole(kind, Short.toUnsignedLong(u16(key)));
                case I16 -> new GgufValue.Whole(kind, u16(key));
                case U32 -> new GgufValue.Whole(kind, Integer.toUnsignedLong(u32(key)));
                case I32 -> new GgufValue.Whole(kind, u32(key));
                case U64, I64 -> new GgufValue.Whole(kind, u64(key));
                case F32 -> new GgufValue.Real(kind, Float.intBitsToFloat(u32(key)));
                case F64 -> new GgufValue.Real(kind, Double.longBitsToDouble(u64(key)));
                case BOOL -> new GgufValue.Truth(truth(key));
                case STRING -> {
                    long length = count("bytes of '" + key + "'", Long.MAX_VALUE, 1);
                    textBytes += length;
                    if (textBytes > limits.maxTextBytes()) {
                        throw broken("the texts have more than " + limits.maxTextBytes() + " bytes", at - 8, DAMAGED);
                    }
                    yield new GgufValue.Text(content(key, length));
                }
                case ARRAY -> sequence(key, depth);
            };
        }

        private GgufValue sequence(String key, int depth) {
            long start = at;
            if (depth > limits.maxNesting()) {
                throw broken("'" + key + "' nests arrays deeper than " + limits.maxNesting(), start, DAMAGED);
            }
            GgufKind element = kind("the kind of the elements of '" + key + "'");
            long count = count("elements of '" + key + "'", Long.MAX_VALUE, element.leastBytes());
            elements += count;
            if (elements > limits.maxElements()) {
                throw broken("the arrays have more than " + limits.maxElements() + " elements", at - 8, DAMAGED);
            }
            List<GgufValue> values = new ArrayList<>((int) count);
            for (long i = 0; i < count; i++) {
                values.add(value(element, key, depth + 1));
            }
            return new GgufValue.Sequence(element, values);
        }

        private boolean truth(String key) {
            byte value = u8(key);
            if (value != 0 && value != 1) {
                throw broken("'" + key + "' is " + value + ", not true (1) or false (0)", at - 1, DAMAGED);
            }
            return value == 1;
        }

        private GgufKind kind(String what) {
            int id = u32(what);
            return GgufKind.of(id)
                    .orElseThrow(() -> broken(
                            what + " is " + Integer.toUnsignedString(id) + ", which is not known", at - 4, DAMAGED));
        }

        /** A number of things that take at least so many bytes each. */
        private long count(String what, long limit, int leastBytes) {
            long count = u64("the number of " + what);
            long left = file.byteSize() - at;
            if (count < 0 || count > limit || count > left / leastBytes) {
                throw broken(
                        "the file claims " + Long.toUnsignedString(count) + " " + what + ", "
                                + (count >= 0 && count <= left / leastBytes
                                        ? "the limit is " + limit
                                        : left + " bytes are left for them"),
                        at - 8,
                        DAMAGED);
            }
            return count;
        }

        private String text(String what, long limit) {
            return content(what, count("bytes of " + what, limit, 1));
        }

        private String content(String what, long length) {
            long start = at - Long.BYTES;
            byte[] bytes = new byte[(int) require(length, what)];
            MemorySegment.copy(file, ValueLayout.JAVA_BYTE, at, bytes, 0, bytes.length);
            at += bytes.length;
            try {
                return StandardCharsets.UTF_8
                        .newDecoder()
                        .decode(ByteBuffer.wrap(bytes))
                        .toString();
            } catch (CharacterCodingException e) {
                throw broken(what + " is not UTF-8", start, DAMAGED);
            }
        }

        private byte u8(String what) {
            require(1, what);
            return file.get(ValueLayout.JAVA_BYTE, at++);
        }

        private short u16(String what) {
            require(2, what);
            short value = file.get(Tensor.I16_LE, at);
            at += 2;
            return value;
        }

        private int u32(String what) {
            require(4, what);
            int value = file.get(Tensor.I32_LE, at);
            at += 4;
            return value;
        }

        private long u64(String what) {
            require(8, what);
            long value = file.get(Tensor.I64_LE, at);
            at += 8;
            return value;
        }

        private long require(long bytes, String what) {
            if (bytes > file.byteSize() - at) {
                throw broken("the file ends within " + what, at, "the file is truncated: download it again");
            }
            return bytes;
        }

        private MalformedModelException broken(String what, long position, String fix) {
            return new MalformedModelException(what, where(position), fix);
        }

        private String where(long position) {
            return name + ", byte " + position;
        }
    }
}
