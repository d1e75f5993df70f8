package dev.octet.formats.onnx;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import com.google.protobuf.UnknownFieldSet;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.onnx.proto.SparseTensorProto;
import dev.octet.formats.onnx.proto.StringStringEntryProto;
import dev.octet.formats.onnx.proto.TensorProto;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Converts TensorProto to {@link Initializer}. Raw and external data become views; numbers in typed fields are converted to little-endian
 * memory off-heap. Storage rules: ONNX onnx.proto, message TensorProto.
 */
final class TensorDecoder {
    private static final System.Logger LOG = System.getLogger(TensorDecoder.class.getName());
    private static final String FIX_EXPORT = "the file is damaged or its exporter wrong: export the model again";
    private static final int RAW = TensorProto.RAW_DATA_FIELD_NUMBER;

    private final MemorySegment file;
    private final ExternalFiles external;
    private final Arena arena;
    private final OnnxLimits limits;
    private long passedThroughBytes;

    /** {@code file}: the target of positions in {@code held}. */
    TensorDecoder(MemorySegment file, ExternalFiles external, Arena arena, OnnxLimits limits) {
        this.file = file;
        this.external = external;
        this.arena = arena;
        this.limits = limits;
    }

    /** A dense tensor, text or opaque. */
    Initializer dense(TensorProto t, Place outer) throws IOException {
        String name = UnknownFields.text(t.getNameBytes(), outer, "tensor name");
        Place place = outer.in("tensor", name);
        Shape shape = shape(t.getDimsList(), place);
        UnknownFields left = new UnknownFields();
        Map<String, String> metadata = left.metadata(t.getMetadataPropsList());
        String doc = left.doc(t.getDocStringBytes());
        TensorProto.Builder rest = t.toBuilder()
                .clearName()
                .clearDims()
                .clearDataType()
                .clearHeld()
                .clearRawData()
                .clearFloatData()
                .clearInt32Data()
                .clearStringData()
                .clearInt64Data()
                .clearDoubleData()
                .clearUint64Data()
                .clearExternalData()
                .clearDataLocation()
                .clearDocString()
                .clearMetadataProps();
        left.brokenDoc().ifPresent(rest::setDocStringBytes);
        rest.addAllMetadataProps(left.entries());
        Initializer.Data data = data(t, name, shape, rest, place);
        return new Initializer(name, data, doc, metadata, UnknownFields.bytes(rest));
    }

    private Initializer.Data data(TensorProto t, String name, Shape shape, TensorProto.Builder rest, Place place)
            throws IOException {
        int id = t.getDataType();
        if (id <= 0) {
            throw place.malformed("the tensor has no element type (data_type " + id + ")", FIX_EXPORT);
        }
        DType dtype = DType.ofOnnxId(id).orElse(null);
        if (dtype == DType.STRING) {
            return strings(t, shape, place);
        }
        if (dtype == null || (dtype.bits() == 6 && shape.elementCount() % 4 != 0)) {
            return opaque(t, shape, rest, place);
        }
        TensorSpec spec = spec(name, dtype, shape, place);
        return new Initializer.Dense(new Tensor(spec, elements(t, spec, place)));
    }

    private static TensorSpec spec(String name, DType dtype, Shape shape, Place place) {
        try {
            return new TensorSpec(name, dtype, shape);
        } catch (ArithmeticException e) {
            throw place.malformed(
                    "shape " + shape + " of " + dtype + " has more bits than a 64-bit number", FIX_EXPORT, e);
        }
    }

    static Shape shape(List<Long> dims, Place place) {
        long[] array = dims.stream().mapToLong(Long::longValue).toArray();
        try {
            return Shape.of(array);
        } catch (IllegalArgumentException e) {
            throw place.malformed("the tensor has a negative dimension: " + dims, FIX_EXPORT, e);
        } catch (ArithmeticException e) {
            throw place.malformed("the dimensions " + dims + " multiply to more than a 64-bit number", FIX_EXPORT, e);
        }
    }

    private static Initializer.Strings strings(TensorProto t, Shape shape, Place place) {
        if (t.getDataLocation() == TensorProto.DataLocation.EXTERNAL || t.hasRawData() || t.getHeldCount() > 0) {
            throw place.malformed("a tensor of text keeps its elements in another field than string_data", FIX_EXPORT);
        }
        if (shape.elementCount() != t.getStringDataCount()) {
            throw counts(t.getStringDataCount(), shape, shape.elementCount(), "string_data", place);
        }
        List<Bytes> list = new ArrayList<>(t.getStringDataCount());
        for (ByteString s : t.getStringDataList()) {
            list.add(Bytes.of(s.toByteArray()));
        }
        return new Initializer.Strings(shape, list);
    }

    private Initializer.Opaque opaque(TensorProto t, Shape shape, TensorProto.Builder rest, Place place)
            throws IOException {
        if (t.getDataLocation() == TensorProto.DataLocation.EXTERNAL) {
            return new Initializer.Opaque(t.getDataType(), shape, external(t, null, place));
        }
        MemorySegment raw = MemorySegment.NULL;
        for (TensorProto.Held h : t.getHeldList()) {
            if (h.getField() == RAW) {
                raw = file.asSlice(h.getPosition(), h.getLength());
            } else {
                putBack(rest, h, place);
            }
        }
        rest.addAllFloatData(t.getFloatDataList())
                .addAllInt32Data(t.getInt32DataList())
                .addAllStringData(t.getStringDataList())
                .addAllInt64Data(t.getInt64DataList())
                .addAllDoubleData(t.getDoubleDataList())
                .addAllUint64Data(t.getUint64DataList());
        return new Initializer.Opaque(t.getDataType(), shape, raw);
    }

    /** Restores the bytes cut out of a message that is passed through. They then lie on the heap. */
    private void putBack(TensorProto.Builder b, TensorProto.Held h, Place place) {
        passedThroughBytes += h.getLength();
        if (passedThroughBytes > limits.textBytes()) {
            throw place.malformed(
                    "tensors that can only be passed through take more than " + limits.textBytes() + " bytes",
                    "export the model with raw_data and without what ONNX does not define, or read it with wider"
                            + " OnnxLimits");
        }
        if (!isList(h)) {
            throw place.malformed("a packed list of numbers ends within one of them", FIX_EXPORT);
        }
        UnknownFieldSet.Field data = UnknownFieldSet.Field.newBuilder()
                .addLengthDelimited(ByteString.copyFrom(
                        file.asSlice(h.getPosition(), h.getLength()).asByteBuffer()))
                .build();
        b.mergeUnknownFields(
                UnknownFieldSet.newBuilder().addField(h.getField(), data).build());
    }

    /** Whether the bytes are valid for their field; protobuf has not checked them. */
    private boolean isList(TensorProto.Held h) {
        return switch (h.getField()) {
            case RAW -> true;
            case TensorProto.FLOAT_DATA_FIELD_NUMBER -> h.getLength() % 4 == 0;
            case TensorProto.DOUBLE_DATA_FIELD_NUMBER -> h.getLength() % 8 == 0;
            default -> Varints.isList(file.asSlice(h.getPosition(), h.getLength()));
        };
    }

    /** Restores all bytes cut out of the tensors in {@code b}. */
    void putBackAll(Message.Builder b, Place place) {
        if (b instanceof TensorProto.Builder t) {
            List<TensorProto.Held> held = t.getHeldList();
            t.clearHeld();
            held.forEach(h -> putBack(t, h, place));
            return;
        }
        for (Map.Entry<FieldDescriptor, Object> e : b.getAllFields().entrySet()) {
            FieldDescriptor field = e.getKey();
            if (field.getJavaType() != FieldDescriptor.JavaType.MESSAGE) {
                continue;
            }
            if (!field.isRepeated()) {
                b.setField(field, whole((Message) e.getValue(), place));
                continue;
            }
            b.clearField(field);
            for (Object o : (List<?>) e.getValue()) {
                b.addRepeatedField(field, whole((Message) o, place));
            }
        }
    }

    private Message whole(Message m, Place place) {
        Message.Builder b = m.toBuilder();
        putBackAll(b, place);
        return b.build();
    }

    /** The elements as {@code spec.byteSize()} bytes, little-endian. */
    private MemorySegment elements(TensorProto t, TensorSpec spec, Place place) throws IOException {
        if (t.getDataLocation() == TensorProto.DataLocation.EXTERNAL) {
            if (t.getHeldCount() > 0) {
                throw place.malformed("the tensor has both external data and data in the file", FIX_EXPORT);
            }
            return external(t, spec, place);
        }
        List<MemorySegment> raw = new ArrayList<>();
        List<TensorProto.Held> typed = new ArrayList<>();
        for (TensorProto.Held h : t.getHeldList()) {
            if (h.getField() == RAW) {
                raw.add(file.asSlice(h.getPosition(), h.getLength()));
            } else if (h.getLength() > 0) {
                typed.add(h);
            }
        }
        boolean anyTyped = !typed.isEmpty() || unpackedCount(t) > 0;
        if (raw.size() > 1 || (anyTyped && !raw.isEmpty() && raw.getFirst().byteSize() > 0)) {
            throw place.malformed("the tensor has its elements twice", FIX_EXPORT);
        }
        if (!anyTyped) {
            return raw(raw.isEmpty() ? MemorySegment.NULL : raw.getFirst(), spec, place);
        }
        return new TypedData(file, arena, place).elements(t, typed, spec);
    }

    static int unpackedCount(TensorProto t) {
        return t.getFloatDataCount()
                + t.getInt32DataCount()
                + t.getInt64DataCount()
                + t.getDoubleDataCount()
                + t.getUint64DataCount()
                + t.getStringDataCount();
    }

    private static MemorySegment raw(MemorySegment raw, TensorSpec spec, Place place) {
        if (raw.byteSize() != spec.byteSize()) {
            throw place.malformed(
                    "raw_data has " + raw.byteSize() + " bytes, " + spec.shape() + " x " + spec.dtype() + " needs "
                            + spec.byteSize(),
                    FIX_EXPORT);
        }
        return raw;
    }

    static MalformedModelException counts(long have, Shape shape, long need, String field, Place place) {
        return place.malformed(field + " has " + have + " elements, " + shape + " needs " + need, FIX_EXPORT);
    }

    /** External data; without a {@code spec} (opaque elements), the length is the declared one or the rest of the file. */
    private MemorySegment external(TensorProto t, @Nullable TensorSpec spec, Place place) throws IOException {
        Map<String, String> keys = new LinkedHashMap<>();
        for (StringStringEntryProto e : t.getExternalDataList()) {
            if (keys.put(e.getKey(), e.getValue()) != null) {
                throw place.malformed("external_data has '" + e.getKey() + "' twice", FIX_EXPORT);
            }
        }
        String location = keys.getOrDefault("location", "");
        MemorySegment all = external.map(location, place);
        long offset = number(keys, "offset", 0, place);
        long expected = spec == null ? Math.max(0, all.byteSize() - offset) : spec.byteSize();
        long length = number(keys, "length", expected, place);
        if (spec != null && length != expected) {
            throw place.malformed(
                    "external data has length " + length + ", " + spec.shape() + " x " + spec.dtype() + " needs "
                            + expected,
                    FIX_EXPORT);
        }
        if (offset > all.byteSize() || length > all.byteSize() - offset) {
            throw place.malformed(
                    "external data at " + offset + " with " + length + " bytes goes beyond the end of '" + location
                            + "', which has " + all.byteSize() + " bytes",
                    "the data file is truncated or belongs to another model: copy it again");
        }
        keys.keySet().stream()
                .filter(k -> !k.equals("location") && !k.equals("offset") && !k.equals("length"))
                .forEach(k -> LOG.log(
                        System.Logger.Level.DEBUG, "{0}: external_data key ''{1}'' has no meaning here", place, k));
        return all.asSlice(offset, length);
    }

    private static long number(Map<String, String> keys, String key, long absent, Place place) {
        String text = keys.get(key);
        if (text == null) {
            return absent;
        }
        try {
            long n = Long.parseLong(text);
            if (n >= 0) {
                return n;
            }
        } catch (NumberFormatException e) {
            throw place.malformed("external_data '" + key + "' is not a number: '" + text + "'", FIX_EXPORT, e);
        }
        throw place.malformed("external_data '" + key + "' is negative: " + text, FIX_EXPORT);
    }

    /** A sparse tensor; its name is that of its values. */
    Initializer sparse(SparseTensorProto s, Place outer) throws IOException {
        if (!s.hasValues() || !s.hasIndices()) {
            throw outer.malformed("a sparse tensor lacks its " + (s.hasValues() ? "indices" : "values"), FIX_EXPORT);
        }
        Initializer values = dense(s.getValues(), outer);
        Place place = outer.in("sparse tensor", values.name());
        Initializer indices = dense(s.getIndices(), place);
        Shape shape = shape(s.getDimsList(), place);
        if (!(values.data() instanceof Initializer.Dense v) || !(indices.data() instanceof Initializer.Dense i)) {
            throw place.malformed("values and indices of a sparse tensor must be numbers", FIX_EXPORT);
        }
        check(v.tensor(), i.tensor(), shape, place);
        SparseTensorProto.Builder rest =
                s.toBuilder().clearValues().clearIndices().clearDims();
        UnknownFields.partial(values, false).ifPresent(rest::setValues);
        UnknownFields.partial(indices, true).ifPresent(rest::setIndices);
        return new Initializer(
                values.name(),
                new Initializer.Sparse(shape, v.tensor(), i.tensor()),
                "",
                Map.of(),
                UnknownFields.bytes(rest));
    }

    /** Rules of SparseTensorProto: values [n]; indices I64, [n] linear or [n, rank]. */
    private static void check(Tensor values, Tensor indices, Shape shape, Place place) {
        if (values.shape().rank() != 1) {
            throw place.malformed("values of a sparse tensor have shape " + values.shape() + ", not [n]", FIX_EXPORT);
        }
        long n = values.shape().dim(0);
        Shape i = indices.shape();
        boolean linear = i.rank() == 1 && i.dim(0) == n;
        boolean perAxis = i.rank() == 2 && i.dim(0) == n && i.dim(1) == shape.rank();
        if (indices.dtype() != DType.I64 || (!linear && !perAxis)) {
            throw place.malformed(
                    "indices of a sparse tensor are " + indices.dtype() + " " + i + ", must be I64 [" + n + "] or [" + n
                            + ", " + shape.rank() + "]",
                    FIX_EXPORT);
        }
    }
}
