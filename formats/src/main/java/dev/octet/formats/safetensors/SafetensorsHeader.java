package dev.octet.formats.safetensors;

import static dev.octet.formats.safetensors.SafetensorsRule.HEADER_TOO_LARGE;
import static dev.octet.formats.safetensors.SafetensorsRule.HEADER_TOO_SMALL;
import static dev.octet.formats.safetensors.SafetensorsRule.INVALID_HEADER_LENGTH;
import static dev.octet.formats.safetensors.SafetensorsRule.INVALID_OFFSET;
import static dev.octet.formats.safetensors.SafetensorsRule.METADATA_INCOMPLETE_BUFFER;
import static dev.octet.formats.safetensors.SafetensorsRule.TENSOR_INVALID_INFO;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.ShardHeader;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.UnaryOperator;

/**
 * The header of one safetensors file: the tensors and their positions. {@link #parse} reads it from a file and checks every rule; {@link
 * #layout} makes it for tensors to be written, in the reference writer's order.
 *
 * <pre>
 * bytes 0..8        u64 little-endian N, the length of the header with its padding
 * bytes 8..8+N      JSON object {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets": [begin, end]}, ...}
 * bytes 8+N..end    the tensors: little-endian, row-major, one after the other without holes
 * </pre>
 */
public final class SafetensorsHeader {
    /** Bytes of the length field before the header. */
    static final int LENGTH_BYTES = 8;

    /** The writer pads the header with spaces so that the tensors start at a multiple of it. */
    private static final int ALIGNMENT = 8;

    static final String METADATA_KEY = "__metadata__";

    private static final JsonFactory JSON = JsonFactory.builder()
            // The reference writer spells control characters \u001f, not \u001F.
            .disable(JsonWriteFeature.WRITE_HEX_UPPER_CASE)
            // ... and characters beyond U+FFFF as their UTF-8 bytes, not as two escapes.
            .enable(JsonWriteFeature.COMBINE_UNICODE_SURROGATES_IN_UTF8)
            .build();

    /** The reference writer's order: widest element types first (so every tensor is aligned), then names by their UTF-8 bytes. */
    private static final Comparator<TensorSpec> FILE_ORDER = Comparator.comparing(TensorSpec::dtype)
            .reversed()
            .thenComparing(TensorSpec::name, Surrogates::compareCodePoints);

    private final long dataStart;
    private final Map<String, String> metadata;
    private final List<Entry> entries;

    /**
     * One tensor and its position.
     *
     * @param begin first byte, counted from the start of the file's data part
     */
    public record Entry(TensorSpec spec, long begin) {
        /** The byte after the last, counted from the start of the file's data part. */
        public long end() {
            return begin + spec.byteSize();
        }
    }

    SafetensorsHeader(long dataStart, Map<String, String> metadata, List<Entry> entries) {
        this.dataStart = dataStart;
        this.metadata = Collections.unmodifiableMap(metadata);
        this.entries = Collections.unmodifiableList(entries);
    }

    /**
     * Reads and checks the header of a file. Heap use is some 200 bytes per tensor; the data part is not touched.
     *
     * @param file all bytes of the file, mapped or in memory
     * @param name the file's name in messages
     * @throws MalformedModelException naming the {@link SafetensorsRule} that the file breaks
     */
    public static SafetensorsHeader parse(MemorySegment file, String name, HeaderLimits limits) {
        return parse(file, name, limits, UnaryOperator.identity());
    }

    /**
     * As {@link #parse(MemorySegment, String, HeaderLimits)}, for a file of an index.
     *
     * @param names maps a tensor's name to the index's equal String, so that each name is in memory once
     */
    public static SafetensorsHeader parse(
            MemorySegment file, String name, HeaderLimits limits, UnaryOperator<String> names) {
        long dataStart = LENGTH_BYTES + checkedHeaderBytes(file, name, limits);
        HeaderJson.Content content =
                new HeaderJson(name, limits, names).parse(file.asSlice(LENGTH_BYTES, dataStart - LENGTH_BYTES));
        SafetensorsHeader header =
                new SafetensorsHeader(dataStart, content.metadata(), checkedEntries(content, name, dataStart));
        long end = header.fileBytes();
        if (end != file.byteSize()) {
            throw METADATA_INCOMPLETE_BUFFER.broken(
                    "the tensors end at byte " + end + ", the file has " + file.byteSize() + " bytes",
                    name + ", bytes " + Math.min(end, file.byteSize()) + ".." + Math.max(end, file.byteSize()));
        }
        return header;
    }

    private static long checkedHeaderBytes(MemorySegment file, String name, HeaderLimits limits) {
        if (file.byteSize() < LENGTH_BYTES) {
            throw HEADER_TOO_SMALL.broken(
                    "the file has " + file.byteSize() + " bytes, the header length alone takes 8",
                    name + ", bytes 0.." + file.byteSize());
        }
        long headerBytes = file.get(Tensor.I64_LE, 0);
        if (Long.compareUnsigned(headerBytes, limits.maxHeaderBytes()) > 0) {
            throw HEADER_TOO_LARGE.broken(
                    "the header claims " + Long.toUnsignedString(headerBytes) + " bytes, the limit is "
                            + limits.maxHeaderBytes(),
                    name + ", header length, bytes 0..8");
        }
        if (headerBytes > file.byteSize() - LENGTH_BYTES) {
            throw INVALID_HEADER_LENGTH.broken(
                    "the header claims " + headerBytes + " bytes, the file has " + (file.byteSize() - LENGTH_BYTES)
                            + " after the length field",
                    name + ", header length, bytes 0..8");
        }
        return headerBytes;
    }

    /** Sorts by offset and checks that each tensor starts at the end of the one before and has the bytes it needs. */
    private static List<Entry> checkedEntries(HeaderJson.Content content, String name, long dataStart) {
        List<HeaderJson.Claim> claims = content.claims();
        claims.sort(Comparator.comparingLong(HeaderJson.Claim::begin).thenComparingLong(HeaderJson.Claim::end));
        List<Entry> entries = new ArrayList<>(claims.size());
        long previousEnd = 0;
        for (HeaderJson.Claim claim : claims) {
            TensorSpec spec = claim.spec();
            if (claim.begin() != previousEnd || claim.end() < claim.begin()) {
                throw INVALID_OFFSET.broken(
                        "tensor '" + spec.name() + "' takes data bytes " + claim.begin() + ".." + claim.end()
                                + ", the tensor before it ends at " + previousEnd,
                        where(name, spec, "data_offsets"));
            }
            if (claim.end() - claim.begin() != spec.byteSize()) {
                throw TENSOR_INVALID_INFO.broken(
                        "tensor '" + spec.name() + "': " + (claim.end() - claim.begin()) + " bytes in the file, "
                                + spec.shape() + " x " + spec.dtype() + " needs " + spec.byteSize(),
                        where(name, spec, "data_offsets") + ", bytes " + (dataStart + claim.begin()) + ".."
                                + (dataStart + claim.end()));
            }
            entries.add(new Entry(spec, claim.begin()));
            previousEnd = claim.end();
        }
        return entries;
    }

    private static String where(String name, TensorSpec spec, String field) {
        return name + ", header field '" + spec.name() + "'." + field;
    }

    /**
     * The header for these tensors, with order, offsets and (through {@link #toBytes}) every byte as of the reference writer, except that
     * metadata keys are sorted, whose order is random there. The same input gives the same bytes.
     *
     * @throws UnsupportedModelException when the format cannot hold a tensor (element type, incomplete last byte, name), or two tensors
     *     have the same name
     */
    public static SafetensorsHeader layout(Collection<TensorSpec> specs, Map<String, String> metadata) {
        List<TensorSpec> sorted = new ArrayList<>(specs);
        Set<String> names = new HashSet<>();
        for (TensorSpec spec : sorted) {
            requireWritable(spec);
            if (!names.add(spec.name())) {
                throw unwritable(spec, "there are two tensors of this name", "give every tensor its own name");
            }
        }
        sorted.sort(FILE_ORDER);
        List<Entry> entries = new ArrayList<>(sorted.size());
        long begin = 0;
        for (TensorSpec spec : sorted) {
            entries.add(new Entry(spec, begin));
            begin = Math.addExact(begin, spec.byteSize());
        }
        Map<String, String> sortedMetadata = new TreeMap<>(Surrogates::compareCodePoints);
        sortedMetadata.putAll(metadata);
        SafetensorsHeader unmeasured = new SafetensorsHeader(0, sortedMetadata, entries);
        return new SafetensorsHeader(LENGTH_BYTES + unmeasured.json().length, sortedMetadata, entries);
    }

    private static void requireWritable(TensorSpec spec) {
        if (spec.dtype().safetensorsName().isEmpty()) {
            throw unwritable(
                    spec,
                    "safetensors has no element type " + spec.dtype(),
                    "convert the tensor to another type, or write ONNX");
        }
        if (spec.shape().elementCount() * spec.dtype().bits() % 8 != 0) {
            throw unwritable(
                    spec,
                    spec.shape().elementCount() + " elements of " + spec.dtype().bits()
                            + " bits do not fill whole bytes",
                    "pad the tensor to a whole number of bytes, or write ONNX");
        }
        if (spec.name().equals(METADATA_KEY)) {
            throw unwritable(spec, "the name is reserved for the file's metadata", "rename the tensor");
        }
        if (!Surrogates.paired(spec.name())) {
            throw unwritable(spec, "the name is not Unicode text (half of a surrogate pair)", "rename the tensor");
        }
    }

    private static UnsupportedModelException unwritable(TensorSpec spec, String what, String fix) {
        return new UnsupportedModelException(what, "tensor '" + spec.name() + "'", fix);
    }

    /**
     * The start of the file, {@link #dataStart()} bytes: length field, JSON and padding.
     *
     * @throws UnsupportedModelException when the header is longer than readers accept
     */
    public byte[] toBytes() {
        byte[] json = json();
        if (json.length > HeaderLimits.MAX_HEADER_BYTES) {
            throw new UnsupportedModelException(
                    "the header of " + entries.size() + " tensors takes " + json.length + " bytes, readers accept "
                            + HeaderLimits.MAX_HEADER_BYTES,
                    "safetensors header",
                    "write fewer tensors to one file");
        }
        return ByteBuffer.allocate(LENGTH_BYTES + json.length)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putLong(json.length)
                .put(json)
                .array();
    }

    private byte[] json() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (JsonGenerator json = JSON.createGenerator(bytes)) {
            json.writeStartObject();
            if (!metadata.isEmpty()) {
                json.writeObjectFieldStart(METADATA_KEY);
                for (Map.Entry<String, String> e : metadata.entrySet()) {
                    json.writeStringField(e.getKey(), e.getValue());
                }
                json.writeEndObject();
            }
            for (Entry e : entries) {
                writeEntry(json, e);
            }
            json.writeEndObject();
        } catch (IOException e) {
            throw new UncheckedIOException("a byte array does not fail", e);
        }
        while (bytes.size() % ALIGNMENT != 0) {
            bytes.write(' ');
        }
        return bytes.toByteArray();
    }

    private static void writeEntry(JsonGenerator json, Entry entry) throws IOException {
        TensorSpec spec = entry.spec();
        json.writeObjectFieldStart(spec.name());
        json.writeStringField("dtype", spec.dtype().safetensorsName().orElseThrow());
        json.writeFieldName("shape");
        long[] dims = spec.shape().toArray();
        json.writeArray(dims, 0, dims.length);
        json.writeFieldName("data_offsets");
        json.writeArray(new long[] {entry.begin(), entry.end()}, 0, 2);
        json.writeEndObject();
    }

    /** The file's free text by key, in the order of the file. */
    public Map<String, String> metadata() {
        return metadata;
    }

    /** All tensors in the order of their bytes. */
    public List<Entry> entries() {
        return entries;
    }

    /** The same without what only safetensors has. */
    ShardHeader shardHeader() {
        return new ShardHeader(
                metadata,
                entries.stream()
                        .map(e -> new ShardHeader.Entry(e.spec(), dataStart + e.begin()))
                        .toList(),
                fileBytes());
    }

    /** Position of the data part in the file: 8 plus the length of the header. */
    public long dataStart() {
        return dataStart;
    }

    /** Bytes of the whole file. */
    public long fileBytes() {
        return dataStart + dataBytes();
    }

    /** Bytes of all tensors. */
    public long dataBytes() {
        return entries.isEmpty() ? 0 : entries.getLast().end();
    }

    /** For example {@code 148 tensors, 90868224 bytes}. */
    @Override
    public String toString() {
        return entries.size() + " tensors, " + dataBytes() + " bytes";
    }
}
