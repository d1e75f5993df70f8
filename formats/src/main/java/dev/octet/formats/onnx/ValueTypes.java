package dev.octet.formats.onnx;

import com.google.protobuf.InvalidProtocolBufferException;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.onnx.proto.TensorShapeProto;
import dev.octet.formats.onnx.proto.TypeProto;
import dev.octet.formats.onnx.proto.ValueInfoProto;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Converts ValueInfoProto and TypeProto in both directions. */
final class ValueTypes {
    private ValueTypes() {}

    static ValueInfo decode(ValueInfoProto v, Place outer) {
        String name = UnknownFields.text(v.getNameBytes(), outer, "value name");
        Place place = outer.in("value", name);
        UnknownFields left = new UnknownFields();
        Map<String, String> metadata = left.metadata(v.getMetadataPropsList());
        String doc = left.doc(v.getDocStringBytes());
        ValueInfoProto.Builder rest =
                v.toBuilder().clearName().clearType().clearDocString().clearMetadataProps();
        left.brokenDoc().ifPresent(rest::setDocStringBytes);
        rest.addAllMetadataProps(left.entries());
        ValueType type = v.hasType() && v.getType().getSerializedSize() > 0 ? decodeAny(v.getType(), place) : null;
        return new ValueInfo(name, type, doc, metadata, UnknownFields.bytes(rest));
    }

    static ValueType decodeAny(TypeProto t, Place place) {
        return switch (t.getValueCase()) {
            case TENSOR_TYPE -> tensor(t, place);
            case SEQUENCE_TYPE -> other("sequence", t);
            case MAP_TYPE -> other("map", t);
            case OPAQUE_TYPE -> other("opaque", t);
            case SPARSE_TENSOR_TYPE -> other("sparse_tensor", t);
            case OPTIONAL_TYPE -> other("optional", t);
            case VALUE_NOT_SET -> other("unknown", t);
        };
    }

    private static ValueType other(String kind, TypeProto t) {
        return new ValueType.OtherType(kind, Bytes.of(t.toByteArray()));
    }

    private static ValueType tensor(TypeProto t, Place place) {
        TypeProto.Tensor tensor = t.getTensorType();
        TypeProto.Builder rest = t.toBuilder().clearDenotation();
        TypeProto.Tensor.Builder restTensor = rest.getTensorTypeBuilder();
        DType dtype = DType.ofOnnxId(tensor.getElemType()).orElse(null);
        if (dtype != null || tensor.getElemType() == 0) {
            restTensor.clearElemType();
        }
        List<Dim> dims = null;
        if (tensor.hasShape()) {
            dims = new ArrayList<>(tensor.getShape().getDimCount());
            for (TensorShapeProto.Dimension d : tensor.getShape().getDimList()) {
                if (d.getUnknownFields().getSerializedSize() > 0) {
                    return other("tensor", t); // a dimension cannot hold unknown fields
                }
                dims.add(dim(d, place));
            }
            restTensor.getShapeBuilder().clearDim();
            if (restTensor.getShape().getSerializedSize() == 0) {
                restTensor.clearShape();
            }
        }
        Bytes unknown = restTensor.buildPartial().getSerializedSize() == 0
                ? UnknownFields.bytes(rest.clearTensorType())
                : UnknownFields.bytes(rest);
        String denotation = UnknownFields.text(t.getDenotationBytes(), place, "type denotation");
        return new ValueType.TensorType(dtype, dims, denotation, unknown);
    }

    /** A dimension; negative sizes and empty symbols, which some exporters write for "unknown", become unknown. */
    private static Dim dim(TensorShapeProto.Dimension d, Place place) {
        String denotation = UnknownFields.text(d.getDenotationBytes(), place, "dimension denotation");
        return switch (d.getValueCase()) {
            case DIM_VALUE -> new Dim(d.getDimValue() < 0 ? null : (Long) d.getDimValue(), null, denotation);
            case DIM_PARAM -> {
                String symbol = UnknownFields.text(d.getDimParamBytes(), place, "dimension name");
                yield new Dim(null, symbol.isEmpty() ? null : symbol, denotation);
            }
            case VALUE_NOT_SET -> new Dim(null, null, denotation);
        };
    }

    static ValueInfoProto encode(ValueInfo v) {
        ValueInfoProto.Builder b = ValueInfoProto.newBuilder().setName(v.name());
        if (v.type() != null) {
            b.setType(encode(v.type()));
        }
        if (!v.doc().isEmpty()) {
            b.setDocString(v.doc());
        }
        b.addAllMetadataProps(GraphEncoder.entries(v.metadata()));
        GraphEncoder.merge(b, v.unknown());
        return b.build();
    }

    static TypeProto encode(ValueType type) {
        return switch (type) {
            case ValueType.TensorType t -> encodeTensor(t);
            case ValueType.OtherType o -> parse(o.proto());
        };
    }

    private static TypeProto parse(Bytes proto) {
        try {
            return TypeProto.parseFrom(proto.toArray());
        } catch (InvalidProtocolBufferException e) {
            throw new IllegalArgumentException("the bytes of a value type are not a TypeProto", e);
        }
    }

    private static TypeProto encodeTensor(ValueType.TensorType t) {
        TypeProto.Builder b = TypeProto.newBuilder();
        TypeProto.Tensor.Builder tensor = b.getTensorTypeBuilder();
        if (t.dtype() != null) {
            tensor.setElemType(t.dtype().onnxId());
        }
        List<Dim> dims = t.dims();
        if (dims != null) {
            TensorShapeProto.Builder shape = tensor.getShapeBuilder();
            dims.forEach(d -> shape.addDim(encode(d)));
        }
        if (!t.denotation().isEmpty()) {
            b.setDenotation(t.denotation());
        }
        GraphEncoder.merge(b, t.unknown());
        return b.build();
    }

    private static TensorShapeProto.Dimension encode(Dim d) {
        TensorShapeProto.Dimension.Builder b = TensorShapeProto.Dimension.newBuilder();
        @Nullable Long size = d.size();
        @Nullable String symbol = d.symbol();
        if (size != null) {
            b.setDimValue(size);
        } else if (symbol != null) {
            b.setDimParam(symbol);
        }
        if (!d.denotation().isEmpty()) {
            b.setDenotation(d.denotation());
        }
        return b.build();
    }
}
