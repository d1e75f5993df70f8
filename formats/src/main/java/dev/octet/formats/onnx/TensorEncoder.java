package dev.octet.formats.onnx;

import com.google.protobuf.ByteString;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.onnx.proto.SparseTensorProto;
import dev.octet.formats.onnx.proto.StringStringEntryProto;
import dev.octet.formats.onnx.proto.TensorProto;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** Converts {@link Initializer} to TensorProto without copying elements: a {@code held} entry refers to their segment. */
final class TensorEncoder {
    /** The targets of positions in {@code held}. */
    private final List<MemorySegment> segments = new ArrayList<>();

    List<MemorySegment> segments() {
        return segments;
    }

    /** Sets all fields but the elements. */
    static void describe(TensorProto.Builder b, Initializer i) {
        if (!i.doc().isEmpty()) {
            b.setDocString(i.doc());
        }
        b.addAllMetadataProps(GraphEncoder.entries(i.metadata()));
        GraphEncoder.merge(b, i.unknown());
    }

    /** A dense tensor, text or opaque. */
    TensorProto dense(Initializer i) {
        TensorProto.Builder b = TensorProto.newBuilder();
        switch (i.data()) {
            case Initializer.Dense d -> {
                shape(b, d.tensor().shape()).setDataType(d.tensor().dtype().onnxId());
                hold(b, d.tensor().bytes());
            }
            case Initializer.Opaque o -> {
                shape(b, o.shape()).setDataType(o.elementType());
                if (o.bytes().byteSize() > 0) {
                    hold(b, o.bytes());
                }
            }
            case Initializer.Strings s -> {
                shape(b, s.shape()).setDataType(DType.STRING.onnxId());
                for (Bytes text : s.values()) {
                    b.addStringData(ByteString.copyFrom(text.toArray()));
                }
            }
            case Initializer.Coded _ ->
                throw new IllegalArgumentException(
                        "'" + i.name() + "' is only there to be trained on: it has no dense elements");
            case Initializer.Sparse _ -> throw new IllegalArgumentException("'" + i.name() + "' is sparse");
        }
        name(b, i.name());
        describe(b, i);
        return b.build();
    }

    /** A dense tensor whose elements are in another file. */
    static TensorProto external(
            Initializer i, Shape shape, int elementType, String location, long offset, long length) {
        TensorProto.Builder b = TensorProto.newBuilder();
        shape(b, shape).setDataType(elementType);
        b.setDataLocation(TensorProto.DataLocation.EXTERNAL)
                .addExternalData(entry("location", location))
                .addExternalData(entry("offset", Long.toString(offset)))
                .addExternalData(entry("length", Long.toString(length)));
        name(b, i.name());
        describe(b, i);
        return b.build();
    }

    SparseTensorProto sparse(Initializer i, Initializer.Sparse s) {
        SparseTensorProto.Builder b = SparseTensorProto.newBuilder();
        for (long d : s.shape().toArray()) {
            b.addDims(d);
        }
        TensorProto.Builder values = tensor(s.values());
        name(values, i.name());
        b.setValues(values);
        b.setIndices(tensor(s.indices()));
        GraphEncoder.merge(b, i.unknown());
        return b.build();
    }

    private TensorProto.Builder tensor(Tensor t) {
        TensorProto.Builder b = TensorProto.newBuilder();
        shape(b, t.shape()).setDataType(t.dtype().onnxId());
        hold(b, t.bytes());
        return b;
    }

    private void hold(TensorProto.Builder b, MemorySegment bytes) {
        b.addHeld(TensorProto.Held.newBuilder()
                .setField(TensorProto.RAW_DATA_FIELD_NUMBER)
                .setPosition(segments.size())
                .setLength(bytes.byteSize()));
        segments.add(bytes);
    }

    private static TensorProto.Builder shape(TensorProto.Builder b, Shape shape) {
        for (long d : shape.toArray()) {
            b.addDims(d);
        }
        return b;
    }

    private static void name(TensorProto.Builder b, String name) {
        if (!name.isEmpty()) {
            b.setName(name);
        }
    }

    private static StringStringEntryProto entry(String key, String value) {
        return StringStringEntryProto.newBuilder().setKey(key).setValue(value).build();
    }
}
