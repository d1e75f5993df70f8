package dev.octet.formats.onnx;

import com.google.protobuf.ByteString;
import dev.octet.formats.onnx.proto.AttributeProto;
import dev.octet.formats.onnx.proto.GraphProto;
import dev.octet.formats.onnx.proto.ModelProto;
import dev.octet.formats.onnx.proto.NodeProto;
import dev.octet.formats.onnx.proto.OperatorSetIdProto;
import dev.octet.formats.onnx.proto.StringStringEntryProto;
import dev.octet.formats.onnx.proto.TensorProto;
import dev.octet.formats.onnx.proto.TensorShapeProto;
import dev.octet.formats.onnx.proto.TypeProto;
import dev.octet.formats.onnx.proto.ValueInfoProto;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Small messages for tests. */
final class Protos {
    private Protos() {}

    /** {@code y = Add(x, w)} with F32 {@code w} of shape [2]. */
    static ModelProto.Builder model() {
        return model(GraphProto.newBuilder()
                .setName("main")
                .addNode(NodeProto.newBuilder()
                        .setName("add")
                        .setOpType("Add")
                        .addInput("x")
                        .addInput("w")
                        .addOutput("y"))
                .addInitializer(floats("w", 1.5f, -2f))
                .addInput(value("x", 1, 2))
                .addOutput(value("y", 1, 2)));
    }

    static ModelProto.Builder model(GraphProto.Builder graph) {
        return ModelProto.newBuilder()
                .setIrVersion(8)
                .addOpsetImport(OperatorSetIdProto.newBuilder().setVersion(17))
                .setGraph(graph);
    }

    /** The model with one more initializer. */
    static ModelProto.Builder with(TensorProto.Builder tensor) {
        ModelProto.Builder m = model();
        m.getGraphBuilder().addInitializer(tensor);
        return m;
    }

    /** The model with one more attribute on its node. */
    static ModelProto.Builder with(AttributeProto.Builder attribute) {
        ModelProto.Builder m = model();
        m.getGraphBuilder().getNodeBuilder(0).addAttribute(attribute);
        return m;
    }

    static TensorProto.Builder floats(String name, float... values) {
        ByteBuffer raw = ByteBuffer.allocate(4 * values.length).order(ByteOrder.LITTLE_ENDIAN);
        for (float v : values) {
            raw.putFloat(v);
        }
        return tensor(name, 1, values.length).setRawData(ByteString.copyFrom(raw.flip()));
    }

    static TensorProto.Builder tensor(String name, int type, long... dims) {
        TensorProto.Builder b = TensorProto.newBuilder().setName(name).setDataType(type);
        for (long d : dims) {
            b.addDims(d);
        }
        return b;
    }

    static TensorProto.Builder external(String name, String... keysAndValues) {
        TensorProto.Builder b = tensor(name, 1, 2).setDataLocation(TensorProto.DataLocation.EXTERNAL);
        for (int i = 0; i < keysAndValues.length; i += 2) {
            b.addExternalData(entry(keysAndValues[i], keysAndValues[i + 1]));
        }
        return b;
    }

    static ValueInfoProto.Builder value(String name, int type, long... dims) {
        TensorShapeProto.Builder shape = TensorShapeProto.newBuilder();
        for (long d : dims) {
            shape.addDim(TensorShapeProto.Dimension.newBuilder().setDimValue(d));
        }
        return ValueInfoProto.newBuilder()
                .setName(name)
                .setType(TypeProto.newBuilder()
                        .setTensorType(
                                TypeProto.Tensor.newBuilder().setElemType(type).setShape(shape)));
    }

    static StringStringEntryProto.Builder entry(String key, String value) {
        return StringStringEntryProto.newBuilder().setKey(key).setValue(value);
    }
}
