package dev.octet.formats.onnx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.model.Model;
import dev.octet.formats.onnx.proto.AttributeProto;
import dev.octet.formats.onnx.proto.AttributeProto.AttributeType;
import dev.octet.formats.onnx.proto.DeviceConfigurationProto;
import dev.octet.formats.onnx.proto.FunctionProto;
import dev.octet.formats.onnx.proto.GraphProto;
import dev.octet.formats.onnx.proto.ModelProto;
import dev.octet.formats.onnx.proto.NodeDeviceConfigurationProto;
import dev.octet.formats.onnx.proto.NodeProto;
import dev.octet.formats.onnx.proto.OperatorSetIdProto;
import dev.octet.formats.onnx.proto.SparseTensorProto;
import dev.octet.formats.onnx.proto.TensorAnnotation;
import dev.octet.formats.onnx.proto.TensorProto;
import dev.octet.formats.onnx.proto.TensorShapeProto;
import dev.octet.formats.onnx.proto.TrainingInfoProto;
import dev.octet.formats.onnx.proto.TypeProto;
import dev.octet.formats.onnx.proto.ValueInfoProto;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OnnxLosslessTest {
    private static final UnknownFieldSet FUTURE = UnknownFieldSet.newBuilder()
            .addField(
                    77,
                    UnknownFieldSet.Field.newBuilder()
                            .addLengthDelimited(ByteString.copyFromUtf8("future"))
                            .build())
            .build();

    @TempDir
    Path folder;

    private final Arena arena = Arena.ofAuto();

    private GraphModel read(ModelProto m) throws IOException {
        Path in = folder.resolve("in.onnx");
        Files.write(in, m.toByteArray());
        return OnnxReader.read(in, arena);
    }

    /** Reads, writes, and compares in normal form. */
    private GraphModel survives(ModelProto.Builder b) throws IOException {
        ModelProto m = b.build();
        GraphModel model = read(m);
        Path out = folder.resolve("out.onnx");
        OnnxWriter.write(model, out);
        assertEquals(NormalForm.of(m), NormalForm.of(OnnxRoundTripTest.parse(out)));
        return model;
    }

    private Initializer survives(TensorProto.Builder t) throws IOException {
        return of(survives(Protos.with(t)).graph().initializers(), t.getName());
    }

    private Attribute survives(AttributeProto.Builder a) throws IOException {
        return of(survives(Protos.with(a)).graph().nodes().getFirst().attributes(), a.getName());
    }

    private static <V> V of(Map<String, V> map, String key) {
        return Objects.requireNonNull(map.get(key), key);
    }

    private static String hex(Initializer i) {
        return HexFormat.of().formatHex(i.tensor().orElseThrow().bytes().toArray(ValueLayout.JAVA_BYTE));
    }

    @Test
    void unknown_fields_of_every_message_survive() throws IOException {
        ModelProto.Builder m = Protos.model().setUnknownFields(FUTURE);
        m.getOpsetImportBuilder(0).setUnknownFields(FUTURE);
        m.addMetadataProps(Protos.entry("k", "v").setUnknownFields(FUTURE));
        GraphProto.Builder g = m.getGraphBuilder().setUnknownFields(FUTURE);
        g.getInitializerBuilder(0).setUnknownFields(FUTURE);
        g.getInputBuilder(0).setUnknownFields(FUTURE).getTypeBuilder().setUnknownFields(FUTURE);
        g.getOutputBuilder(0).getTypeBuilder().getTensorTypeBuilder().setUnknownFields(FUTURE);
        g.addValueInfo(Protos.value("v", 1, 3));
        g.getValueInfoBuilder(0)
                .getTypeBuilder()
                .getTensorTypeBuilder()
                .getShapeBuilder()
                .setUnknownFields(FUTURE);
        g.addValueInfo(Protos.value("u", 1, 3));
        g.getValueInfoBuilder(1)
                .getTypeBuilder()
                .getTensorTypeBuilder()
                .getShapeBuilder()
                .getDimBuilder(0)
                .setUnknownFields(FUTURE);
        NodeProto.Builder n = g.getNodeBuilder(0).setUnknownFields(FUTURE);
        n.addAttribute(AttributeProto.newBuilder()
                .setName("a")
                .setType(AttributeType.INT)
                .setI(0)
                .setUnknownFields(FUTURE));
        m.addFunctions(FunctionProto.newBuilder()
                .setName("f")
                .setDomain("d")
                .addOpsetImport(OperatorSetIdProto.newBuilder().setVersion(3).setUnknownFields(FUTURE))
                .setUnknownFields(FUTURE));
        survives(m);
    }

    @Test
    void parts_of_the_schema_that_octet_does_not_model_survive() throws IOException {
        ModelProto.Builder m = Protos.model()
                .addTrainingInfo(TrainingInfoProto.newBuilder()
                        .setAlgorithm(GraphProto.newBuilder().setName("t").addInitializer(Protos.floats("lr", 0.1f)))
                        .addUpdateBinding(Protos.entry("w", "w_new")))
                .addConfiguration(DeviceConfigurationProto.newBuilder()
                        .setName("two")
                        .setNumDevices(2)
                        .addDevice("a"));
        m.getGraphBuilder()
                .addQuantizationAnnotation(TensorAnnotation.newBuilder()
                        .setTensorName("x")
                        .addQuantParameterTensorNames(Protos.entry("SCALE_TENSOR", "s")))
                .getNodeBuilder(0)
                .addDeviceConfigurations(NodeDeviceConfigurationProto.newBuilder()
                        .setConfigurationId("two")
                        .setPipelineStage(1));
        survives(m);
    }

    @Test
    void names_docs_and_metadata_survive() throws IOException {
        ModelProto.Builder m = Protos.model()
                .setProducerName("p")
                .setProducerVersion("1")
                .setDomain("org")
                .setModelVersion(-4)
                .setDocString("doc\nof two lines")
                .addMetadataProps(Protos.entry("a", "1"))
                .addMetadataProps(Protos.entry("b", "2"))
                .addMetadataProps(Protos.entry("a", "3"));
        GraphProto.Builder g = m.getGraphBuilder().setDocString("g").addMetadataProps(Protos.entry("gk", ""));
        g.getNodeBuilder(0)
                .setDocString("n")
                .setOverload("o")
                .setDomain("ai.onnx")
                .addMetadataProps(Protos.entry("nk", "nv"));
        g.getInitializerBuilder(0).setDocString("i").addMetadataProps(Protos.entry("ik", "iv"));
        g.getInputBuilder(0).setDocString("v").addMetadataProps(Protos.entry("vk", "vv"));
        g.getInputBuilder(0)
                .getTypeBuilder()
                .setDenotation("IMAGE")
                .getTensorTypeBuilder()
                .getShapeBuilder()
                .getDimBuilder(0)
                .setDenotation("DATA_BATCH");
        GraphModel model = survives(m);
        assertEquals(Map.of("a", "1", "b", "2"), model.metadata());
        assertEquals(17, model.opset());
    }

    @Test
    void text_that_is_not_utf8_survives_where_it_names_nothing() throws IOException {
        ByteString latin1 = ByteString.copyFrom(new byte[] {'c', (byte) 0xE9});
        ModelProto.Builder m = Protos.model().setDocStringBytes(latin1);
        m.getGraphBuilder().setDocStringBytes(latin1).getNodeBuilder(0).setDocStringBytes(latin1);
        m.getGraphBuilder().getInitializerBuilder(0).setDocStringBytes(latin1);
        m.addMetadataProps(Protos.entry("k", "").setValueBytes(latin1));
        survives(m);
        survives(AttributeProto.newBuilder()
                .setName("s")
                .setType(AttributeType.STRING)
                .setS(latin1));
    }

    @Test
    void functions_survive() throws IOException {
        FunctionProto.Builder f = FunctionProto.newBuilder()
                .setName("f")
                .setDomain("d")
                .addInput("x")
                .addOutput("y")
                .addAttribute("alpha")
                .addAttributeProto(
                        AttributeProto.newBuilder().setName("beta").setF(2).setType(AttributeType.FLOAT))
                .addNode(NodeProto.newBuilder()
                        .setOpType("Elu")
                        .addInput("x")
                        .addOutput("y")
                        .addAttribute(AttributeProto.newBuilder()
                                .setName("alpha")
                                .setRefAttrName("alpha")
                                .setType(AttributeType.FLOAT)))
                .addOpsetImport(OperatorSetIdProto.newBuilder().setVersion(17))
                .addValueInfo(Protos.value("y", 1, 2))
                .setDocString("doc")
                .addMetadataProps(Protos.entry("k", "v"));
        GraphModel m =
                survives(Protos.model().addFunctions(f).addFunctions(f.clone().setOverload("o")));
        assertEquals("o", m.functions().getLast().overload());
        assertEquals(
                new Attribute.Reference("alpha", 1),
                of(m.functions().getFirst().nodes().getFirst().attributes(), "alpha")
                        .value());
    }

    @Test
    void attributes_of_every_type_survive() throws IOException {
        GraphProto.Builder sub = GraphProto.newBuilder().setName("sub").addInitializer(Protos.floats("q", 1));
        TypeProto type = Protos.value("", 1, 2).getType();
        SparseTensorProto sparse = sparse();
        AttributeProto.Builder a = AttributeProto.newBuilder().setName("a");
        survives(a.clone().setType(AttributeType.FLOAT).setF(Float.NaN));
        survives(a.clone().setType(AttributeType.INT).setI(Long.MIN_VALUE));
        survives(a.clone().setType(AttributeType.INT));
        survives(a.clone().setType(AttributeType.STRING).setS(ByteString.copyFromUtf8("")));
        survives(a.clone().setType(AttributeType.TENSOR).setT(Protos.floats("", 1, 2)));
        survives(a.clone().setType(AttributeType.GRAPH).setG(sub));
        survives(a.clone().setType(AttributeType.TYPE_PROTO).setTp(type));
        survives(a.clone().setType(AttributeType.SPARSE_TENSOR).setSparseTensor(sparse));
        survives(a.clone().setType(AttributeType.FLOATS).addFloats(1).addFloats(-0f));
        survives(a.clone().setType(AttributeType.INTS).addInts(1).addInts(-1));
        survives(a.clone().setType(AttributeType.INTS));
        survives(a.clone().setType(AttributeType.STRINGS).addStrings(ByteString.EMPTY));
        survives(a.clone()
                .setType(AttributeType.TENSORS)
                .addTensors(Protos.floats("p", 1))
                .addTensors(Protos.tensor("e", 1, 0)));
        survives(a.clone().setType(AttributeType.GRAPHS).addGraphs(sub).addGraphs(sub));
        survives(a.clone().setType(AttributeType.TYPE_PROTOS).addTypeProtos(type));
        survives(a.clone().setType(AttributeType.SPARSE_TENSORS).addSparseTensors(sparse));
        survives(a.clone().setType(AttributeType.SPARSE_TENSORS));
        // a second value that the type does not point to
        survives(a.clone().setType(AttributeType.INT).setI(1).setF(2));
        survives(
                a.clone().setType(AttributeType.INT).setT(Protos.floats("t", 1)).setG(sub));
        survives(a.clone().setType(AttributeType.FLOAT).setRefAttrName("r").addTensors(Protos.floats("t", 1)));
    }

    @Test
    void an_attribute_of_a_future_type_survives() throws IOException {
        AttributeProto.Builder a = AttributeProto.newBuilder()
                .setName("a")
                .setUnknownFields(UnknownFieldSet.newBuilder(FUTURE)
                        .addField(
                                20,
                                UnknownFieldSet.Field.newBuilder().addVarint(42).build())
                        .build());
        assertEquals(new Attribute.OfOther(42), survives(a).value());
    }

    @Test
    void an_attribute_without_a_type_gets_that_of_its_value() throws IOException {
        GraphModel m = read(
                Protos.with(AttributeProto.newBuilder().setName("a").addInts(3)).build());
        assertEquals(
                new Attribute.OfInts(List.of(3L)),
                of(m.graph().nodes().getFirst().attributes(), "a").value());
    }

    @Test
    void value_types_of_every_kind_survive() throws IOException {
        TypeProto tensor = Protos.value("", 1, 2).getType();
        ModelProto.Builder m = Protos.model();
        GraphProto.Builder g = m.getGraphBuilder();
        g.addValueInfo(typed(
                "seq",
                TypeProto.newBuilder()
                        .setSequenceType(TypeProto.Sequence.newBuilder().setElemType(tensor))));
        g.addValueInfo(typed(
                "map",
                TypeProto.newBuilder()
                        .setMapType(TypeProto.Map.newBuilder().setKeyType(7).setValueType(tensor))));
        g.addValueInfo(typed(
                "opt",
                TypeProto.newBuilder()
                        .setOptionalType(TypeProto.Optional.newBuilder().setElemType(tensor))));
        g.addValueInfo(typed(
                "sparse",
                TypeProto.newBuilder()
                        .setSparseTensorType(TypeProto.SparseTensor.newBuilder().setElemType(1))));
        g.addValueInfo(typed(
                "opaque",
                TypeProto.newBuilder()
                        .setOpaqueType(TypeProto.Opaque.newBuilder().setName("o"))));
        g.addValueInfo(typed(
                "text",
                TypeProto.newBuilder()
                        .setTensorType(TypeProto.Tensor.newBuilder().setElemType(8))));
        g.addValueInfo(typed(
                "symbols",
                TypeProto.newBuilder()
                        .setTensorType(TypeProto.Tensor.newBuilder()
                                .setElemType(1)
                                .setShape(TensorShapeProto.newBuilder()
                                        .addDim(TensorShapeProto.Dimension.newBuilder()
                                                .setDimParam("batch"))
                                        .addDim(TensorShapeProto.Dimension.newBuilder())
                                        .addDim(TensorShapeProto.Dimension.newBuilder()
                                                .setDimValue(0))))));
        g.addValueInfo(typed(
                "scalar",
                TypeProto.newBuilder()
                        .setTensorType(
                                TypeProto.Tensor.newBuilder().setElemType(1).setShape(TensorShapeProto.newBuilder()))));
        g.addValueInfo(typed(
                "future",
                TypeProto.newBuilder()
                        .setTensorType(TypeProto.Tensor.newBuilder().setElemType(99))));
        g.addValueInfo(ValueInfoProto.newBuilder().setName("untyped"));
        g.addValueInfo(Protos.value("untyped", 1, 5)); // a name twice
        GraphModel model = survives(m);
        ValueType.TensorType future = assertInstanceOf(
                ValueType.TensorType.class,
                of(model.graph().valueInfos(), "future").type());
        assertNull(future.dtype());
        assertFalse(future.unknown().isEmpty());
    }

    private static ValueInfoProto.Builder typed(String name, TypeProto.Builder type) {
        return ValueInfoProto.newBuilder().setName(name).setType(type);
    }

    @Test
    void negative_sizes_and_empty_symbols_mean_unknown() throws IOException {
        ModelProto.Builder m = Protos.model();
        m.getGraphBuilder().addValueInfo(Protos.value("v", 1, -1));
        ValueType.TensorType t = assertInstanceOf(
                ValueType.TensorType.class,
                of(read(m.build()).graph().valueInfos(), "v").type());
        assertEquals("F32[?]", t.toString());
    }

    private static SparseTensorProto sparse() {
        return SparseTensorProto.newBuilder()
                .setValues(Protos.floats("s", 1, 2).setDocString("values").setUnknownFields(FUTURE))
                .setIndices(Protos.tensor("idx", 7, 2)
                        .addInt64Data(0)
                        .addInt64Data(3)
                        .setUnknownFields(FUTURE))
                .addDims(4)
                .setUnknownFields(FUTURE)
                .build();
    }

    @Test
    void sparse_and_text_initializers_survive() throws IOException {
        ModelProto.Builder m = Protos.model();
        m.getGraphBuilder().addSparseInitializer(sparse());
        assertInstanceOf(
                Initializer.Sparse.class,
                of(survives(m).graph().initializers(), "s").data());
        survives(Protos.tensor("t", 8, 2)
                .addStringData(ByteString.copyFromUtf8("a"))
                .addStringData(ByteString.copyFrom(new byte[] {(byte) 0xFF})));
    }

    @Test
    void a_segment_of_a_tensor_survives() throws IOException {
        survives(Protos.floats("t", 1, 2)
                .setSegment(TensorProto.Segment.newBuilder().setBegin(0).setEnd(2)));
    }

    @Test
    void tensors_of_future_types_survive_in_whatever_field() throws IOException {
        ByteString bytes = ByteString.copyFromUtf8("abc");
        Initializer raw = survives(Protos.tensor("t", 99, 7).setRawData(bytes));
        assertEquals(
                3,
                assertInstanceOf(Initializer.Opaque.class, raw.data()).bytes().byteSize());
        survives(Protos.tensor("t", 99, 7).setRawData(bytes).setDocString("d").setUnknownFields(FUTURE));
        ModelProto typed = Protos.with(Protos.tensor("t", 99, 2).addInt32Data(5).addInt32Data(-6))
                .build();
        Path out = folder.resolve("typed.onnx");
        OnnxWriter.write(read(typed), out);
        assertEquals(
                List.of(5, -6),
                OnnxRoundTripTest.parse(out).getGraph().getInitializer(1).getInt32DataList());
        Initializer six = survives(Protos.tensor("t", 27, 2).setRawData(bytes.substring(0, 2)));
        assertInstanceOf(Initializer.Opaque.class, six.data());
    }

    @Test
    void a_tensor_of_a_future_type_survives_in_external_data() throws IOException {
        Files.write(folder.resolve("w.bin"), new byte[] {9, 8, 7, 6});
        TensorProto.Builder t =
                Protos.external("t", "location", "w.bin", "offset", "1").setDataType(99);
        GraphModel m = read(Protos.with(t).build());
        Path out = folder.resolve("out.onnx");
        OnnxWriter.write(m, out);
        assertEquals(
                ByteString.copyFrom(new byte[] {8, 7, 6}),
                OnnxRoundTripTest.parse(out).getGraph().getInitializer(1).getRawData());
    }

    // Typed data: every element type, expected bytes written by hand

    @ParameterizedTest
    @CsvSource({
        "1, float, '1;-2', 0000803f000000c0",
        "14, float, '1;-2;0;1', 0000803f000000c0000000000000803f",
        "11, double, '1;-2', 000000000000f03f00000000000000c0",
        "15, double, '1;-2', 000000000000f03f00000000000000c0",
        "7, int64, '1;-2', 0100000000000000feffffffffffffff",
        "13, uint64, '1;-2', 0100000000000000feffffffffffffff",
        "12, uint64, '1;4294967295', 01000000ffffffff",
        "6, int32, '1;-2', 01000000feffffff",
        "5, int32, '1;-2', 0100feff",
        "4, int32, '1;65535', 0100ffff",
        "3, int32, '1;-2', 01fe",
        "2, int32, '1;255', 01ff",
        "9, int32, '1;0', 0100",
        "10, int32, '15360;49152', 003c00c0",
        "16, int32, '16256;49152', 803f00c0",
        "17, int32, '56;255', 38ff",
        "18, int32, '56;128', 3880",
        "19, int32, '60;255', 3cff",
        "20, int32, '60;128', 3c80",
        "24, int32, '127;255', 7fff"
    })
    void typed_fields_become_little_endian_bytes(int type, String field, String values, String expected)
            throws IOException {
        String[] numbers = values.split(";", -1);
        boolean pairs = type == 14 || type == 15;
        TensorProto.Builder t = Protos.tensor("t", type, pairs ? numbers.length / 2 : numbers.length);
        for (String v : numbers) {
            switch (field) {
                case "float" -> t.addFloatData(Float.parseFloat(v));
                case "double" -> t.addDoubleData(Double.parseDouble(v));
                case "int64" -> t.addInt64Data(Long.parseLong(v));
                case "uint64" -> t.addUint64Data(Long.parseLong(v));
                default -> t.addInt32Data(Integer.parseInt(v));
            }
        }
        assertEquals(expected, hex(survives(t)));
        assertEquals(expected, hex(of(read(unpacked(t, field)).graph().initializers(), "t")));
    }

    /** The same tensor as a writer would spell it that does not pack lists: one tag for each element. */
    private static ModelProto unpacked(TensorProto.Builder t, String field) {
        UnknownFieldSet.Field.Builder list = UnknownFieldSet.Field.newBuilder();
        int number = switch (field) {
            case "float" -> {
                t.getFloatDataList().forEach(v -> list.addFixed32(Float.floatToRawIntBits(v)));
                yield 4;
            }
            case "double" -> {
                t.getDoubleDataList().forEach(v -> list.addFixed64(Double.doubleToRawLongBits(v)));
                yield 10;
            }
            case "int64" -> {
                t.getInt64DataList().forEach(list::addVarint);
                yield 7;
            }
            case "uint64" -> {
                t.getUint64DataList().forEach(list::addVarint);
                yield 11;
            }
            default -> {
                t.getInt32DataList().forEach(list::addVarint);
                yield 5;
            }
        };
        TensorProto.Builder bare = t.clone()
                .clearFloatData()
                .clearDoubleData()
                .clearInt64Data()
                .clearUint64Data()
                .clearInt32Data();
        bare.setUnknownFields(
                UnknownFieldSet.newBuilder().addField(number, list.build()).build());
        return Protos.with(bare).build();
    }

    @ParameterizedTest
    @CsvSource({
        "21, 3, '33;3', 2103", // U4 1, 2, 3
        "22, 3, '-15;15', f10f", // I4 1, -1, -1
        "23, 2, '33', 21", // F4
        "25, 5, '228;1', e401", // U2 0, 1, 2, 3, 1
        "26, 4, '27', 1b",
        "27, 4, '1;2;3;63', 8130fc", // F6: 24 bits, lowest first
        "28, 4, '63;0;0;32', 3f0080"
    })
    void sub_byte_types_are_packed_low_bits_first(int type, long count, String values, String expected)
            throws IOException {
        TensorProto.Builder t = Protos.tensor("t", type, count);
        for (String v : values.split(";", -1)) {
            t.addInt32Data(Integer.parseInt(v));
        }
        assertEquals(expected, hex(of(read(Protos.with(t).build()).graph().initializers(), "t")));
    }

    // External data written

    @Test
    void external_data_are_aligned_and_small_constants_stay() throws IOException {
        ModelProto.Builder m = Protos.with(Protos.floats("a", new float[300]));
        m.getGraphBuilder()
                .addInitializer(Protos.floats("b", new float[2000]))
                .addInitializer(Protos.tensor("empty", 1, 0));
        Path out = folder.resolve("split.onnx");
        OnnxWriter.write(
                read(m.build()), out, OnnxWriteOptions.externalData(1024).withDataFileName("weights.bin"));
        List<TensorProto> list = OnnxRoundTripTest.parse(out).getGraph().getInitializerList();
        assertTrue(list.get(0).hasRawData());
        assertEquals(
                List.of(
                        Protos.entry("location", "weights.bin").build(),
                        Protos.entry("offset", "0").build(),
                        Protos.entry("length", "1200").build()),
                list.get(1).getExternalDataList());
        assertEquals("4096", list.get(2).getExternalData(1).getValue());
        assertEquals(4096 + 8000, Files.size(folder.resolve("weights.bin")));
        assertEquals(TensorProto.DataLocation.DEFAULT, list.get(3).getDataLocation());
    }

    @Test
    void a_model_can_be_written_over_the_file_it_was_read_from() throws IOException {
        Path path = folder.resolve("self.onnx");
        Files.write(
                path, Protos.with(Protos.floats("a", new float[300])).build().toByteArray());
        for (int i = 0; i < 2; i++) {
            OnnxWriter.write(OnnxReader.read(path, arena), path, OnnxWriteOptions.externalData(64));
        }
        OnnxWriter.write(OnnxReader.read(path, arena), path);
        assertEquals(
                NormalForm.of(Protos.with(Protos.floats("a", new float[300])).build()),
                NormalForm.of(OnnxRoundTripTest.parse(path)));
    }

    @Test
    void write_options_are_checked() {
        assertThrows(IllegalArgumentException.class, () -> OnnxWriteOptions.externalData(-1));
        assertThrows(
                IllegalArgumentException.class,
                () -> OnnxWriteOptions.defaults().withDataFileName("../x"));
        assertThrows(
                IllegalArgumentException.class,
                () -> OnnxWriteOptions.defaults().withDataFileName(""));
        assertThrows(
                IllegalArgumentException.class,
                () -> new OnnxWriteOptions(OnnxWriteOptions.External.ALWAYS, 0, null, 3000));
    }

    @Test
    void a_model_without_a_graph_is_no_onnx() {
        Path out = folder.resolve("none.onnx");
        assertThrows(UnsupportedModelException.class, () -> new OnnxFormat().write(Model.of(Map.of(), Map.of()), out));
        assertFalse(Files.exists(out));
    }

    @Test
    void raw_data_are_views_of_the_mapped_file() throws IOException {
        ModelProto m = Protos.with(Protos.floats("a", 1, 2, 3)).build();
        MemorySegment file = arena.allocateFrom(ValueLayout.JAVA_BYTE, m.toByteArray());
        GraphModel model = OnnxReader.parse(file, Place.file("m"), null, arena, OnnxLimits.DEFAULT);
        MemorySegment bytes =
                of(model.graph().initializers(), "a").tensor().orElseThrow().bytes();
        assertTrue(file.asOverlappingSlice(bytes).isPresent());
        assertArrayEquals(
                new float[] {1, 2, 3},
                of(model.graph().initializers(), "a").tensor().orElseThrow().toFloats());
    }
}
