package dev.octet.formats.onnx;

import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Function;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.onnx.proto.AttributeProto;
import dev.octet.formats.onnx.proto.AttributeProto.AttributeType;
import dev.octet.formats.onnx.proto.FunctionProto;
import dev.octet.formats.onnx.proto.GraphProto;
import dev.octet.formats.onnx.proto.ModelProto;
import dev.octet.formats.onnx.proto.NodeProto;
import dev.octet.formats.onnx.proto.OperatorSetIdProto;
import dev.octet.formats.onnx.proto.StringStringEntryProto;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Converts {@link GraphModel} to ModelProto without tensor data ({@link TensorEncoder}, {@link ExternalLayout}). */
final class GraphEncoder {
    /** The main graph and 32 nested levels: each level takes three messages, and protobuf's readers allow 100. */
    private static final int MAX_GRAPH_DEPTH = 33;

    private final TensorEncoder tensors;
    private final ExternalLayout external;
    private int depth;

    GraphEncoder(TensorEncoder tensors, ExternalLayout external) {
        this.tensors = tensors;
        this.external = external;
    }

    /** Merges a partial message of the same type into the builder. */
    static void merge(Message.Builder b, Bytes unknown) {
        if (unknown.isEmpty()) {
            return;
        }
        try {
            b.mergeFrom(unknown.toArray());
        } catch (InvalidProtocolBufferException e) {
            throw new IllegalArgumentException(
                    "pass-through bytes are not a " + b.getDescriptorForType().getName(), e);
        }
    }

    static List<StringStringEntryProto> entries(Map<String, String> map) {
        List<StringStringEntryProto> list = new ArrayList<>(map.size());
        map.forEach((k, v) -> list.add(
                StringStringEntryProto.newBuilder().setKey(k).setValue(v).build()));
        return list;
    }

    ModelProto model(GraphModel m) {
        ModelProto.Builder b = ModelProto.newBuilder().setIrVersion(m.irVersion());
        GraphModel.Producer p = m.producer();
        if (!p.name().isEmpty()) {
            b.setProducerName(p.name());
        }
        if (!p.version().isEmpty()) {
            b.setProducerVersion(p.version());
        }
        if (!p.domain().isEmpty()) {
            b.setDomain(p.domain());
        }
        if (p.modelVersion() != 0) {
            b.setModelVersion(p.modelVersion());
        }
        if (!p.doc().isEmpty()) {
            b.setDocString(p.doc());
        }
        b.setGraph(graph(m.graph()));
        m.functions().forEach(f -> b.addFunctions(function(f)));
        b.addAllMetadataProps(entries(m.metadata()));
        merge(b, m.unknown());
        List<OperatorSetIdProto> opsets = opsets(m.opsets(), b.getOpsetImportList());
        return b.clearOpsetImport().addAllOpsetImport(opsets).build();
    }

    /** {@code odd}: pass-through fields of entries, merged into the entry of their domain. */
    private static List<OperatorSetIdProto> opsets(Map<String, Long> versions, List<OperatorSetIdProto> odd) {
        List<OperatorSetIdProto> list = new ArrayList<>(versions.size());
        versions.forEach((domain, version) -> {
            OperatorSetIdProto.Builder o =
                    OperatorSetIdProto.newBuilder().setDomain(domain).setVersion(version);
            odd.stream().filter(e -> e.getDomain().equals(domain)).forEach(o::mergeFrom);
            list.add(o.build());
        });
        return list;
    }

    private GraphProto graph(Graph g) {
        if (++depth > MAX_GRAPH_DEPTH) {
            throw new UnsupportedModelException(
                    "graphs are nested more than " + (MAX_GRAPH_DEPTH - 1) + " deep",
                    "graph '" + g.name() + "'",
                    "protobuf readers cannot open such a model: turn the inner graphs into functions");
        }
        GraphProto.Builder b = GraphProto.newBuilder().setName(g.name());
        g.nodes().forEach(n -> b.addNode(node(n)));
        for (Initializer i : g.initializers().values()) {
            if (i.data() instanceof Initializer.Sparse s) {
                b.addSparseInitializer(tensors.sparse(i, s));
            } else {
                b.addInitializer(external.place(i).orElseGet(() -> tensors.dense(i)));
            }
        }
        if (!g.doc().isEmpty()) {
            b.setDocString(g.doc());
        }
        g.inputs().forEach(v -> b.addInput(ValueTypes.encode(v)));
        g.outputs().forEach(v -> b.addOutput(ValueTypes.encode(v)));
        g.valueInfos().values().forEach(v -> b.addValueInfo(ValueTypes.encode(v)));
        b.addAllMetadataProps(entries(g.metadata()));
        merge(b, g.unknown());
        depth--;
        return b.build();
    }

    private NodeProto node(Node n) {
        NodeProto.Builder b = NodeProto.newBuilder();
        b.addAllInput(n.inputs()).addAllOutput(n.outputs()).setOpType(n.opType());
        if (!n.name().isEmpty()) {
            b.setName(n.name());
        }
        if (!n.domain().isEmpty()) {
            b.setDomain(n.domain());
        }
        if (!n.overload().isEmpty()) {
            b.setOverload(n.overload());
        }
        n.attributes().values().forEach(a -> b.addAttribute(attribute(a)));
        if (!n.doc().isEmpty()) {
            b.setDocString(n.doc());
        }
        b.addAllMetadataProps(entries(n.metadata()));
        merge(b, n.unknown());
        return b.build();
    }

    private AttributeProto attribute(Attribute a) {
        AttributeProto.Builder b = AttributeProto.newBuilder().setName(a.name());
        value(b, a.value());
        if (!a.doc().isEmpty()) {
            b.setDocString(a.doc());
        }
        merge(b, a.unknown());
        return b.build();
    }

    private void value(AttributeProto.Builder b, Attribute.Value value) {
        switch (value) {
            case Attribute.OfInt v -> b.setI(v.value()).setType(AttributeType.INT);
            case Attribute.OfFloat v -> b.setF(v.value()).setType(AttributeType.FLOAT);
            case Attribute.OfText v -> b.setS(bytes(v.value())).setType(AttributeType.STRING);
            case Attribute.OfTensor v -> tensor(b, v.value());
            case Attribute.OfGraph v -> b.setG(graph(v.value())).setType(AttributeType.GRAPH);
            case Attribute.OfType v -> b.setTp(ValueTypes.encode(v.value())).setType(AttributeType.TYPE_PROTO);
            case Attribute.OfInts v -> b.addAllInts(v.values()).setType(AttributeType.INTS);
            case Attribute.OfFloats v -> b.addAllFloats(v.values()).setType(AttributeType.FLOATS);
            case Attribute.OfTexts v -> {
                v.values().forEach(s -> b.addStrings(bytes(s)));
                b.setType(AttributeType.STRINGS);
            }
            case Attribute.OfTensors v -> tensors(b, v.values());
            case Attribute.OfGraphs v -> {
                v.values().forEach(g -> b.addGraphs(graph(g)));
                b.setType(AttributeType.GRAPHS);
            }
            case Attribute.OfTypes v -> {
                v.values().forEach(t -> b.addTypeProtos(ValueTypes.encode(t)));
                b.setType(AttributeType.TYPE_PROTOS);
            }
            case Attribute.OfOther _ -> {} // type and value are in the pass-through bytes
            case Attribute.Reference r -> {
                b.setRefAttrName(r.parameter());
                AttributeType type = AttributeType.forNumber(r.type());
                if (type != null && type != AttributeType.UNDEFINED) {
                    b.setType(type);
                }
            }
        }
    }

    private void tensor(AttributeProto.Builder b, Initializer i) {
        if (i.data() instanceof Initializer.Sparse s) {
            b.setSparseTensor(tensors.sparse(i, s)).setType(AttributeType.SPARSE_TENSOR);
        } else {
            b.setT(tensors.dense(i)).setType(AttributeType.TENSOR);
        }
    }

    private void tensors(AttributeProto.Builder b, List<Initializer> list) {
        b.setType(AttributeType.TENSORS);
        for (Initializer i : list) {
            if (i.data() instanceof Initializer.Sparse s) {
                b.addSparseTensors(tensors.sparse(i, s)).setType(AttributeType.SPARSE_TENSORS);
            } else {
                b.addTensors(tensors.dense(i));
            }
        }
    }

    private static ByteString bytes(Bytes b) {
        return ByteString.copyFrom(b.toArray());
    }

    private FunctionProto function(Function f) {
        FunctionProto.Builder b = FunctionProto.newBuilder().setName(f.name()).setDomain(f.domain());
        if (!f.overload().isEmpty()) {
            b.setOverload(f.overload());
        }
        b.addAllInput(f.inputs()).addAllOutput(f.outputs()).addAllAttribute(f.attributes());
        f.defaults().forEach(a -> b.addAttributeProto(attribute(a)));
        f.nodes().forEach(n -> b.addNode(node(n)));
        f.valueInfos().values().forEach(v -> b.addValueInfo(ValueTypes.encode(v)));
        if (!f.doc().isEmpty()) {
            b.setDocString(f.doc());
        }
        b.addAllMetadataProps(entries(f.metadata()));
        merge(b, f.unknown());
        List<OperatorSetIdProto> opsets = opsets(f.opsets(), b.getOpsetImportList());
        return b.clearOpsetImport().addAllOpsetImport(opsets).build();
    }
}
