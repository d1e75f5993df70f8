package dev.octet.formats.onnx;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Function;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.onnx.proto.AttributeProto;
import dev.octet.formats.onnx.proto.AttributeProto.AttributeType;
import dev.octet.formats.onnx.proto.FunctionProto;
import dev.octet.formats.onnx.proto.GraphProto;
import dev.octet.formats.onnx.proto.ModelProto;
import dev.octet.formats.onnx.proto.NodeProto;
import dev.octet.formats.onnx.proto.OperatorSetIdProto;
import dev.octet.formats.onnx.proto.SparseTensorProto;
import dev.octet.formats.onnx.proto.TensorProto;
import dev.octet.formats.onnx.proto.TrainingInfoProto;
import dev.octet.formats.onnx.proto.ValueInfoProto;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;

/** Converts ModelProto to {@link GraphModel}. Recurses only over nested subgraphs, whose depth {@link StrippedProto} has limited. */
final class GraphDecoder {
    private static final String FIX_EXPORT = "the file is damaged or its exporter wrong: export the model again";

    private final TensorDecoder tensors;

    GraphDecoder(TensorDecoder tensors) {
        this.tensors = tensors;
    }

    GraphModel model(ModelProto m, Place place) throws IOException {
        if (m.getIrVersion() <= 0) {
            throw place.malformed(
                    "the model has no ir_version" + (m.hasIrVersion() ? " (" + m.getIrVersion() + ")" : ""),
                    "this is not an ONNX model, or a damaged one: export it again");
        }
        if (!m.hasGraph()) {
            throw place.malformed(
                    "the model has no graph", "this is not an ONNX model, or a damaged one: export it again");
        }
        refuseExternalTraining(m, place);
        UnknownFields left = new UnknownFields();
        Map<String, String> metadata = left.metadata(m.getMetadataPropsList());
        String doc = left.doc(m.getDocStringBytes());
        ModelProto.Builder rest = m.toBuilder()
                .clearIrVersion()
                .clearProducerName()
                .clearProducerVersion()
                .clearDomain()
                .clearModelVersion()
                .clearDocString()
                .clearGraph()
                .clearOpsetImport()
                .clearMetadataProps()
                .clearFunctions();
        left.brokenDoc().ifPresent(rest::setDocStringBytes);
        rest.addAllMetadataProps(left.entries());
        List<OperatorSetIdProto> oddOpsets = new ArrayList<>();
        Map<String, Long> opsets = opsets(m.getOpsetImportList(), oddOpsets, place);
        rest.addAllOpsetImport(oddOpsets);
        List<Function> functions = new ArrayList<>();
        for (FunctionProto f : m.getFunctionsList()) {
            functions.add(function(f, place));
        }
        GraphModel.Producer producer = new GraphModel.Producer(
                UnknownFields.text(m.getProducerNameBytes(), place, "producer name"),
                UnknownFields.text(m.getProducerVersionBytes(), place, "producer version"),
                UnknownFields.text(m.getDomainBytes(), place, "model domain"),
                m.getModelVersion(),
                doc);
        Graph graph = graph(m.getGraph(), place);
        return new GraphModel(
                m.getIrVersion(), opsets, graph, functions, producer, metadata, UnknownFields.bytes(rest));
    }

    /**
     * Refuses external data in training graphs: these are passed through as bytes, so references would break when the model is written
     * elsewhere.
     */
    private static void refuseExternalTraining(ModelProto m, Place place) {
        for (TrainingInfoProto t : m.getTrainingInfoList()) {
            for (GraphProto g : List.of(t.getInitialization(), t.getAlgorithm())) {
                for (TensorProto i : g.getInitializerList()) {
                    if (i.getDataLocation() == TensorProto.DataLocation.EXTERNAL) {
                        throw new UnsupportedModelException(
                                "training_info keeps tensor '" + i.getName() + "' in external data",
                                place.toString(),
                                "drop training_info, or save its tensors in the file");
                    }
                }
            }
        }
    }

    /** Versions by domain; entries with unknown fields also go to {@code odd}, which the writer merges by domain. */
    private static Map<String, Long> opsets(List<OperatorSetIdProto> list, List<OperatorSetIdProto> odd, Place place) {
        Map<String, Long> map = new LinkedHashMap<>();
        for (OperatorSetIdProto o : list) {
            String domain = UnknownFields.text(o.getDomainBytes(), place, "domain");
            String normal = domain.equals("ai.onnx") ? "" : domain;
            Long old = map.put(normal, o.getVersion());
            if (old != null && old != o.getVersion()) {
                throw place.malformed(
                        "the operator set '" + domain + "' is imported as version " + old + " and as " + o.getVersion(),
                        FIX_EXPORT);
            }
            if (o.getUnknownFields().getSerializedSize() > 0) {
                odd.add(o.toBuilder().setDomain(normal).clearVersion().build());
            }
        }
        return map;
    }

    private Graph graph(GraphProto g, Place outer) throws IOException {
        String name = UnknownFields.text(g.getNameBytes(), outer, "graph name");
        Place place = outer.in("graph", name);
        UnknownFields left = new UnknownFields();
        Map<String, String> metadata = left.metadata(g.getMetadataPropsList());
        String doc = left.doc(g.getDocStringBytes());
        GraphProto.Builder rest = g.toBuilder()
                .clearNode()
                .clearName()
                .clearInitializer()
                .clearDocString()
                .clearInput()
                .clearOutput()
                .clearValueInfo()
                .clearSparseInitializer()
                .clearMetadataProps();
        left.brokenDoc().ifPresent(rest::setDocStringBytes);
        rest.addAllMetadataProps(left.entries());
        List<ValueInfoProto> repeated = new ArrayList<>();
        Map<String, ValueInfo> valueInfos = valueInfos(g.getValueInfoList(), repeated, place);
        rest.addAllValueInfo(repeated);
        Map<String, Initializer> initializers = initializers(g, place);
        return new Graph(
                name,
                nodes(g.getNodeList(), place),
                initializers,
                values(g.getInputList(), place),
                values(g.getOutputList(), place),
                valueInfos,
                doc,
                metadata,
                UnknownFields.bytes(rest));
    }

    private Map<String, Initializer> initializers(GraphProto g, Place place) throws IOException {
        Map<String, Initializer> map = new LinkedHashMap<>();
        for (TensorProto t : g.getInitializerList()) {
            put(map, tensors.dense(t, place), place);
        }
        for (SparseTensorProto s : g.getSparseInitializerList()) {
            put(map, tensors.sparse(s, place), place);
        }
        return map;
    }

    private static void put(Map<String, Initializer> map, Initializer i, Place place) {
        if (i.name().isEmpty()) {
            throw place.malformed("an initializer has no name", FIX_EXPORT);
        }
        if (map.put(i.name(), i) != null) {
            throw place.malformed("there are two initializers named '" + i.name() + "'", FIX_EXPORT);
        }
    }

    private static List<ValueInfo> values(List<ValueInfoProto> list, Place place) {
        List<ValueInfo> out = new ArrayList<>(list.size());
        for (ValueInfoProto v : list) {
            out.add(ValueTypes.decode(v, place));
        }
        return out;
    }

    private static Map<String, ValueInfo> valueInfos(
            List<ValueInfoProto> list, List<ValueInfoProto> repeated, Place place) {
        Map<String, ValueInfo> map = new LinkedHashMap<>();
        for (ValueInfoProto p : list) {
            ValueInfo v = ValueTypes.decode(p, place);
            if (map.putIfAbsent(v.name(), v) != null) {
                repeated.add(p);
            }
        }
        return map;
    }

    private List<Node> nodes(List<NodeProto> list, Place place) throws IOException {
        List<Node> out = new ArrayList<>(list.size());
        for (NodeProto n : list) {
            out.add(node(n, place));
        }
        return out;
    }

    private Node node(NodeProto n, Place outer) throws IOException {
        String name = UnknownFields.text(n.getNameBytes(), outer, "node name");
        String opType = UnknownFields.text(n.getOpTypeBytes(), outer, "op_type");
        List<String> inputs = texts(n.getInputList().size(), n::getInputBytes, outer, "node input");
        List<String> outputs = texts(n.getOutputList().size(), n::getOutputBytes, outer, "node output");
        Place place = outer.in("node", name.isEmpty() ? opType + "(" + String.join(", ", outputs) + ")" : name);
        if (opType.isEmpty()) {
            throw place.malformed("the node has no op_type", FIX_EXPORT);
        }
        UnknownFields left = new UnknownFields();
        Map<String, String> metadata = left.metadata(n.getMetadataPropsList());
        String doc = left.doc(n.getDocStringBytes());
        NodeProto.Builder rest = n.toBuilder()
                .clearInput()
                .clearOutput()
                .clearName()
                .clearOpType()
                .clearAttribute()
                .clearDocString()
                .clearDomain()
                .clearOverload()
                .clearMetadataProps();
        left.brokenDoc().ifPresent(rest::setDocStringBytes);
        rest.addAllMetadataProps(left.entries());
        Map<String, Attribute> attributes = new LinkedHashMap<>();
        for (AttributeProto a : n.getAttributeList()) {
            Attribute attribute = attribute(a, place);
            if (attributes.put(attribute.name(), attribute) != null) {
                throw place.malformed("the node has two attributes named '" + attribute.name() + "'", FIX_EXPORT);
            }
        }
        return new Node(
                name,
                opType,
                UnknownFields.text(n.getDomainBytes(), place, "domain"),
                UnknownFields.text(n.getOverloadBytes(), place, "overload"),
                inputs,
                outputs,
                attributes,
                doc,
                metadata,
                UnknownFields.bytes(rest));
    }

    private static List<String> texts(int count, IntFunction<ByteString> at, Place place, String what) {
        List<String> out = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            out.add(UnknownFields.text(at.apply(i), place, what));
        }
        return out;
    }

    private Attribute attribute(AttributeProto a, Place outer) throws IOException {
        String name = UnknownFields.text(a.getNameBytes(), outer, "attribute name");
        Place place = outer.in("attribute", name);
        UnknownFields left = new UnknownFields();
        String doc = left.doc(a.getDocStringBytes());
        AttributeProto.Builder rest = a.toBuilder().clearName().clearType().clearDocString();
        left.brokenDoc().ifPresent(rest::setDocStringBytes);
        Attribute.Value value = value(a, rest, place);
        tensors.putBackAll(rest, place); // a second value, or a value of unknown type, may have tensors
        return new Attribute(name, value, doc, UnknownFields.bytes(rest));
    }

    /** The value; clears its fields in {@code rest}. */
    private Attribute.Value value(AttributeProto a, AttributeProto.Builder rest, Place place) throws IOException {
        int number = typeNumber(a);
        if (!a.getRefAttrName().isEmpty()) {
            rest.clearRefAttrName();
            return new Attribute.Reference(
                    UnknownFields.text(a.getRefAttrNameBytes(), place, "attribute reference"), number);
        }
        AttributeType type = AttributeType.forNumber(number);
        if (type == null) {
            return new Attribute.OfOther(number);
        }
        return switch (type == AttributeType.UNDEFINED ? infer(a, place) : type) {
            case FLOAT -> {
                rest.clearF();
                yield new Attribute.OfFloat(a.getF());
            }
            case INT -> {
                rest.clearI();
                yield new Attribute.OfInt(a.getI());
            }
            case STRING -> {
                rest.clearS();
                yield new Attribute.OfText(Bytes.of(a.getS().toByteArray()));
            }
            case TENSOR -> {
                present(a.hasT(), "TENSOR", place);
                rest.clearT();
                yield new Attribute.OfTensor(tensors.dense(a.getT(), place));
            }
            case GRAPH -> {
                present(a.hasG(), "GRAPH", place);
                rest.clearG();
                yield new Attribute.OfGraph(graph(a.getG(), place));
            }
            case SPARSE_TENSOR -> {
                present(a.hasSparseTensor(), "SPARSE_TENSOR", place);
                rest.clearSparseTensor();
                yield new Attribute.OfTensor(tensors.sparse(a.getSparseTensor(), place));
            }
            case TYPE_PROTO -> {
                present(a.hasTp(), "TYPE_PROTO", place);
                rest.clearTp();
                yield new Attribute.OfType(ValueTypes.decodeAny(a.getTp(), place));
            }
            case FLOATS -> {
                rest.clearFloats();
                yield new Attribute.OfFloats(a.getFloatsList());
            }
            case INTS -> {
                rest.clearInts();
                yield new Attribute.OfInts(a.getIntsList());
            }
            case STRINGS -> {
                rest.clearStrings();
                yield new Attribute.OfTexts(a.getStringsList().stream()
                        .map(s -> Bytes.of(s.toByteArray()))
                        .toList());
            }
            case TENSORS, SPARSE_TENSORS, GRAPHS, TYPE_PROTOS -> list(a, rest, place);
            case UNDEFINED -> throw new IllegalStateException("infer() gives a type");
        };
    }

    private Attribute.Value list(AttributeProto a, AttributeProto.Builder rest, Place place) throws IOException {
        AttributeType type = a.hasType() && a.getType() != AttributeType.UNDEFINED ? a.getType() : infer(a, place);
        if (type == AttributeType.GRAPHS) {
            rest.clearGraphs();
            List<Graph> graphs = new ArrayList<>();
            for (GraphProto g : a.getGraphsList()) {
                graphs.add(graph(g, place));
            }
            return new Attribute.OfGraphs(graphs);
        }
        if (type == AttributeType.TYPE_PROTOS) {
            rest.clearTypeProtos();
            return new Attribute.OfTypes(a.getTypeProtosList().stream()
                    .map(t -> ValueTypes.decodeAny(t, place))
                    .toList());
        }
        List<Initializer> list = new ArrayList<>();
        if (type == AttributeType.TENSORS) {
            rest.clearTensors();
            for (TensorProto t : a.getTensorsList()) {
                list.add(tensors.dense(t, place));
            }
            return new Attribute.OfTensors(list);
        }
        rest.clearSparseTensors();
        for (SparseTensorProto s : a.getSparseTensorsList()) {
            list.add(tensors.sparse(s, place));
        }
        if (list.isEmpty()) {
            // An empty list looks the same for dense and sparse tensors, so the type is passed through.
            rest.setType(AttributeType.SPARSE_TENSORS);
        }
        return new Attribute.OfTensors(list);
    }

    private static void present(boolean present, String type, Place place) {
        if (!present) {
            throw place.malformed("the attribute is of type " + type + " but has no such value", FIX_EXPORT);
        }
    }

    /** The AttributeType number; a number unknown to the schema lies in the unknown fields. */
    private static int typeNumber(AttributeProto a) {
        if (a.hasType()) {
            return a.getType().getNumber();
        }
        UnknownFieldSet unknown = a.getUnknownFields();
        if (unknown.hasField(AttributeProto.TYPE_FIELD_NUMBER)) {
            List<Long> numbers =
                    unknown.getField(AttributeProto.TYPE_FIELD_NUMBER).getVarintList();
            return numbers.isEmpty() ? 0 : numbers.getLast().intValue();
        }
        return 0;
    }

    /** The type in IR 1 files, which do not store it: that of the only field that is set. */
    private static AttributeType infer(AttributeProto a, Place place) {
        List<AttributeType> filled = new ArrayList<>();
        add(filled, a.hasF(), AttributeType.FLOAT);
        add(filled, a.hasI(), AttributeType.INT);
        add(filled, a.hasS(), AttributeType.STRING);
        add(filled, a.hasT(), AttributeType.TENSOR);
        add(filled, a.hasG(), AttributeType.GRAPH);
        add(filled, a.hasTp(), AttributeType.TYPE_PROTO);
        add(filled, a.hasSparseTensor(), AttributeType.SPARSE_TENSOR);
        add(filled, a.getFloatsCount() > 0, AttributeType.FLOATS);
        add(filled, a.getIntsCount() > 0, AttributeType.INTS);
        add(filled, a.getStringsCount() > 0, AttributeType.STRINGS);
        add(filled, a.getTensorsCount() > 0, AttributeType.TENSORS);
        add(filled, a.getGraphsCount() > 0, AttributeType.GRAPHS);
        add(filled, a.getTypeProtosCount() > 0, AttributeType.TYPE_PROTOS);
        add(filled, a.getSparseTensorsCount() > 0, AttributeType.SPARSE_TENSORS);
        if (filled.size() != 1) {
            throw place.malformed(
                    filled.isEmpty()
                            ? "the attribute has neither a type nor a value"
                            : "the attribute has no type and several values " + filled,
                    FIX_EXPORT);
        }
        return filled.getFirst();
    }

    private static void add(List<AttributeType> filled, boolean present, AttributeType type) {
        if (present) {
            filled.add(type);
        }
    }

    private Function function(FunctionProto f, Place outer) throws IOException {
        String name = UnknownFields.text(f.getNameBytes(), outer, "function name");
        Place place = outer.in("function", name);
        UnknownFields left = new UnknownFields();
        Map<String, String> metadata = left.metadata(f.getMetadataPropsList());
        String doc = left.doc(f.getDocStringBytes());
        FunctionProto.Builder rest = f.toBuilder()
                .clearName()
                .clearInput()
                .clearOutput()
                .clearAttribute()
                .clearNode()
                .clearDocString()
                .clearOpsetImport()
                .clearDomain()
                .clearAttributeProto()
                .clearValueInfo()
                .clearOverload()
                .clearMetadataProps();
        left.brokenDoc().ifPresent(rest::setDocStringBytes);
        rest.addAllMetadataProps(left.entries());
        List<OperatorSetIdProto> oddOpsets = new ArrayList<>();
        Map<String, Long> opsets = opsets(f.getOpsetImportList(), oddOpsets, place);
        rest.addAllOpsetImport(oddOpsets);
        List<ValueInfoProto> repeated = new ArrayList<>();
        Map<String, ValueInfo> valueInfos = valueInfos(f.getValueInfoList(), repeated, place);
        rest.addAllValueInfo(repeated);
        List<Attribute> defaults = new ArrayList<>();
        for (AttributeProto a : f.getAttributeProtoList()) {
            defaults.add(attribute(a, place));
        }
        return new Function(
                UnknownFields.text(f.getDomainBytes(), place, "domain"),
                name,
                UnknownFields.text(f.getOverloadBytes(), place, "overload"),
                texts(f.getInputCount(), f::getInputBytes, place, "function input"),
                texts(f.getOutputCount(), f::getOutputBytes, place, "function output"),
                texts(f.getAttributeCount(), f::getAttributeBytes, place, "function attribute"),
                defaults,
                nodes(f.getNodeList(), place),
                opsets,
                valueInfos,
                doc,
                metadata,
                UnknownFields.bytes(rest));
    }
}
