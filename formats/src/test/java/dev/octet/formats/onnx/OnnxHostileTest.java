package dev.octet.formats.onnx;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.onnx.proto.AttributeProto;
import dev.octet.formats.onnx.proto.AttributeProto.AttributeType;
import dev.octet.formats.onnx.proto.GraphProto;
import dev.octet.formats.onnx.proto.ModelProto;
import dev.octet.formats.onnx.proto.NodeProto;
import dev.octet.formats.onnx.proto.OperatorSetIdProto;
import dev.octet.formats.onnx.proto.SparseTensorProto;
import dev.octet.formats.onnx.proto.TensorProto;
import dev.octet.formats.onnx.proto.TrainingInfoProto;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** One planted fault per rule. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OnnxHostileTest {
    @TempDir
    Path folder;

    private <E extends OctetException> E refused(Class<E> kind, byte[] bytes) throws IOException {
        Path path = folder.resolve("m.onnx");
        Files.write(path, bytes);
        try (Arena arena = Arena.ofConfined()) {
            E e = assertThrows(kind, () -> OnnxReader.read(path, arena));
            assertTrue(e.where().startsWith(path.toString()), e.where());
            assertFalse(e.fix().isBlank());
            return e;
        }
    }

    private String refused(ModelProto.Builder model) throws IOException {
        return refused(MalformedModelException.class, model.build().toByteArray())
                .what();
    }

    private String refused(TensorProto.Builder tensor) throws IOException {
        MalformedModelException e = refused(
                MalformedModelException.class, Protos.with(tensor).build().toByteArray());
        assertTrue(e.where().endsWith("graph 'main', tensor 't'"), e.where());
        return e.what();
    }

    private String refused(AttributeProto.Builder attribute) throws IOException {
        return refused(Protos.with(attribute));
    }

    @Test
    void an_empty_file_is_refused() throws IOException {
        assertEquals(
                "the file is empty",
                refused(MalformedModelException.class, new byte[0]).what());
    }

    @Test
    void a_text_file_is_refused_as_such() throws IOException {
        byte[] text = "<html><body>404 not found</body></html>".getBytes(StandardCharsets.UTF_8);
        assertTrue(refused(MalformedModelException.class, text).what().endsWith("(the file begins like text)"));
        assertFalse(new OnnxFormat().recognises(folder.resolve("m.onnx")));
    }

    @Test
    void every_truncation_is_refused_or_still_a_model() throws IOException {
        byte[] whole = Protos.model().build().toByteArray();
        for (int n = 1; n < whole.length; n++) {
            byte[] cut = Arrays.copyOf(whole, n);
            try (Arena arena = Arena.ofConfined()) {
                OnnxReader.parse(MemorySegment.ofArray(cut), Place.file("cut"), null, arena, OnnxLimits.DEFAULT);
            } catch (MalformedModelException e) {
                assertTrue(e.where().startsWith("cut"), e.where());
            }
        }
    }

    @Test
    void a_cut_off_tensor_is_told_with_its_byte_offset() throws IOException {
        byte[] whole =
                Protos.with(Protos.floats("big", new float[1000])).build().toByteArray();
        MalformedModelException e = refused(MalformedModelException.class, Arrays.copyOf(whole, whole.length - 100));
        assertTrue(e.what().startsWith("field 'graph' says "), e.what());
        assertTrue(e.where().contains("byte "), e.where());
        assertTrue(new OnnxFormat().recognises(folder.resolve("m.onnx")));
    }

    @Test
    void garbage_after_the_model_is_refused() throws IOException {
        byte[] whole = Protos.model().build().toByteArray();
        byte[] more = Arrays.copyOf(whole, whole.length + 9);
        assertEquals(
                "field tag 0 is invalid in protobuf",
                refused(MalformedModelException.class, more).what());
        Arrays.fill(more, whole.length, more.length, (byte) 0xFF);
        refused(MalformedModelException.class, more);
    }

    @Test
    void a_model_needs_an_ir_version_and_a_graph() throws IOException {
        assertEquals("the model has no ir_version", refused(Protos.model().clearIrVersion()));
        assertEquals("the model has no ir_version (0)", refused(Protos.model().setIrVersion(0)));
        assertEquals("the model has no ir_version (-1)", refused(Protos.model().setIrVersion(-1)));
        assertEquals("the model has no graph", refused(Protos.model().clearGraph()));
    }

    @Test
    void an_operator_set_has_one_version() throws IOException {
        assertEquals(
                "the operator set 'ai.onnx' is imported as version 17 and as 18",
                refused(Protos.model()
                        .addOpsetImport(OperatorSetIdProto.newBuilder()
                                .setDomain("ai.onnx")
                                .setVersion(18))));
    }

    @Test
    void dimensions_are_checked() throws IOException {
        assertEquals("the tensor has a negative dimension: [2, -1]", refused(Protos.tensor("t", 1, 2, -1)));
        assertEquals(
                "the dimensions [4294967296, 4294967296] multiply to more than a 64-bit number",
                refused(Protos.tensor("t", 1, 1L << 32, 1L << 32)));
        assertEquals(
                "shape [4611686018427387904] of F32 has more bits than a 64-bit number",
                refused(Protos.tensor("t", 1, 1L << 62)));
    }

    @Test
    void an_element_type_is_needed() throws IOException {
        assertEquals("the tensor has no element type (data_type 0)", refused(Protos.tensor("t", 0, 1)));
        assertEquals("the tensor has no element type (data_type -3)", refused(Protos.tensor("t", -3, 1)));
    }

    @Test
    void raw_data_has_the_length_that_shape_and_type_say() throws IOException {
        ByteString three = ByteString.copyFrom(new byte[3]);
        assertEquals(
                "raw_data has 3 bytes, [1000000000000] x F32 needs 4000000000000",
                refused(Protos.tensor("t", 1, 1_000_000_000_000L).setRawData(three)));
        assertEquals("raw_data has 0 bytes, [2] x F32 needs 8", refused(Protos.tensor("t", 1, 2)));
        assertEquals(
                "raw_data has 3 bytes, [5] x I4 needs 3".replace("[5]", "[7]").replace("needs 3", "needs 4"),
                refused(Protos.tensor("t", 22, 7).setRawData(three)));
    }

    @Test
    void typed_data_have_as_many_elements_as_the_shape() throws IOException {
        assertEquals(
                "float_data has 1 elements, [1000000000000] needs 1000000000000",
                refused(Protos.tensor("t", 1, 1_000_000_000_000L).addFloatData(1)));
        assertEquals(
                "int64_data has 1 elements, [2] needs 2",
                refused(Protos.tensor("t", 7, 2).addInt64Data(1)));
        assertEquals(
                "int32_data has 2 elements, [5] needs 3",
                refused(Protos.tensor("t", 21, 5).addInt32Data(1).addInt32Data(2)));
        assertEquals(
                "string_data has 0 elements, [1000000000000] needs 1000000000000",
                refused(Protos.tensor("t", 8, 1_000_000_000_000L)));
    }

    @Test
    void elements_lie_in_the_field_of_their_type_and_once() throws IOException {
        assertEquals(
                "elements of type F32 are in int64_data, they belong in float_data",
                refused(Protos.tensor("t", 1, 1).addInt64Data(1)));
        assertEquals(
                "the tensor has its elements twice",
                refused(Protos.floats("t", 1).addFloatData(1)));
        assertEquals(
                "a tensor of text keeps its elements in another field than string_data",
                refused(Protos.tensor("t", 8, 1).setRawData(ByteString.copyFromUtf8("a"))));
        assertEquals(
                "elements of type F32 are in the wrong data field, they belong in float_data",
                refused(Protos.tensor("t", 1, 1).addFloatData(1).addStringData(ByteString.EMPTY)));
    }

    @Test
    void numbers_fit_their_element_type() throws IOException {
        assertEquals(
                "element 0 is 300, which is not a value of U8",
                refused(Protos.tensor("t", 2, 1).addInt32Data(300)));
        assertEquals(
                "element 0 is -129, which is not a value of I8",
                refused(Protos.tensor("t", 3, 1).addInt32Data(-129)));
        assertEquals(
                "element 0 is 70000, which is not a value of F16",
                refused(Protos.tensor("t", 10, 1).addInt32Data(70_000)));
        assertEquals(
                "element 0 is 4294967296, which is not a value of U32",
                refused(Protos.tensor("t", 12, 1).addUint64Data(1L << 32)));
        assertEquals(
                "element 0 is 64, which is not a value of F6_E2M3",
                refused(Protos.tensor("t", 27, 4)
                        .addInt32Data(64)
                        .addInt32Data(0)
                        .addInt32Data(0)
                        .addInt32Data(0)));
    }

    @Test
    void initializers_have_names_of_their_own() throws IOException {
        assertEquals("an initializer has no name", refused(Protos.with(Protos.floats("", 1))));
        assertEquals("there are two initializers named 'w'", refused(Protos.with(Protos.floats("w", 1))));
    }

    @Test
    void attributes_have_names_of_their_own_and_the_value_their_type_says() throws IOException {
        ModelProto.Builder twice =
                Protos.with(AttributeProto.newBuilder().setName("a").setI(1).setType(AttributeType.INT));
        twice.getGraphBuilder()
                .getNodeBuilder(0)
                .addAttribute(AttributeProto.newBuilder().setName("a").setF(1));
        assertEquals("the node has two attributes named 'a'", refused(twice));
        AttributeProto.Builder a = AttributeProto.newBuilder().setName("a");
        assertEquals("the attribute has neither a type nor a value", refused(a));
        assertEquals("the attribute is of type TENSOR but has no such value", refused(a.setType(AttributeType.TENSOR)));
        assertEquals("the attribute is of type GRAPH but has no such value", refused(a.setType(AttributeType.GRAPH)));
        assertEquals(
                "the attribute is of type TYPE_PROTO but has no such value",
                refused(a.setType(AttributeType.TYPE_PROTO)));
        assertEquals(
                "the attribute has no type and several values [FLOAT, INT]",
                refused(a.clearType().setF(1).setI(1)));
    }

    @Test
    void a_node_needs_an_operator_and_names_are_text() throws IOException {
        ModelProto.Builder m = Protos.model();
        m.getGraphBuilder().addNode(NodeProto.newBuilder().addOutput("z"));
        assertEquals("the node has no op_type", refused(m));
        ByteString latin1 = ByteString.copyFrom(new byte[] {(byte) 0xE9});
        assertEquals(
                "a tensor name is not UTF-8",
                refused(Protos.with(Protos.floats("t", 1).setNameBytes(latin1))));
        ModelProto.Builder n = Protos.model();
        n.getGraphBuilder().getNodeBuilder(0).setOpTypeBytes(latin1);
        assertEquals("a op_type is not UTF-8", refused(n));
    }

    @Test
    void sparse_tensors_are_consistent() throws IOException {
        TensorProto values = Protos.floats("s", 1, 2).build();
        TensorProto good =
                Protos.tensor("", 7, 2).addInt64Data(0).addInt64Data(1).build();
        TensorProto bad =
                Protos.tensor("", 6, 2).addInt32Data(0).addInt32Data(1).build();
        assertEquals(
                "a sparse tensor lacks its indices",
                sparse(SparseTensorProto.newBuilder().setValues(values)));
        assertEquals(
                "a sparse tensor lacks its values",
                sparse(SparseTensorProto.newBuilder().setIndices(good)));
        assertEquals(
                "indices of a sparse tensor are I32 [2], must be I64 [2] or [2, 1]",
                sparse(SparseTensorProto.newBuilder()
                        .setValues(values)
                        .setIndices(bad)
                        .addDims(4)));
    }

    private String sparse(SparseTensorProto.Builder s) throws IOException {
        ModelProto.Builder m = Protos.model();
        m.getGraphBuilder().addSparseInitializer(s);
        return refused(m);
    }

    // External data

    @Test
    void external_data_stay_in_the_folder() throws IOException {
        Files.write(folder.resolve("w.bin"), new byte[64]);
        assertEquals("external data without a location", refused(Protos.external("t")));
        assertEquals(
                "external data location '/etc/passwd' is absolute",
                refused(Protos.external("t", "location", "/etc/passwd")));
        assertEquals("external data location 'C:\\w' is absolute", refused(Protos.external("t", "location", "C:\\w")));
        assertEquals(
                "external data location 'a/../../w' contains '..'",
                refused(Protos.external("t", "location", "a/../../w")));
        assertEquals(
                "external data location 'a\\..\\w' contains '..'",
                refused(Protos.external("t", "location", "a\\..\\w")));
        assertTrue(
                refused(Protos.external("t", "location", "a\0b")).startsWith("external data location is not a path"));
        assertEquals("external data file 'none' is missing", refused(Protos.external("t", "location", "none")));
        assertEquals("external data '.' is not a regular file", refused(Protos.external("t", "location", ".")));
    }

    @Test
    void a_link_that_leads_out_of_the_folder_is_refused_and_one_inside_is_not() throws IOException {
        Path outside = Files.createDirectory(folder.resolve("outside"));
        Path inside = Files.createDirectory(folder.resolve("inside"));
        Files.write(outside.resolve("w.bin"), new byte[8]);
        Files.write(inside.resolve("w.bin"), new byte[8]);
        Files.createSymbolicLink(inside.resolve("out"), outside.resolve("w.bin"));
        Files.createSymbolicLink(inside.resolve("in"), inside.resolve("w.bin"));
        Path model = inside.resolve("m.onnx");
        try (Arena arena = Arena.ofConfined()) {
            Files.write(
                    model,
                    Protos.with(Protos.external("t", "location", "in")).build().toByteArray());
            OnnxReader.read(model, arena);
            Files.write(
                    model,
                    Protos.with(Protos.external("t", "location", "out")).build().toByteArray());
            assertEquals(
                    "external data 'out' leads out of the model's folder",
                    assertThrows(MalformedModelException.class, () -> OnnxReader.read(model, arena))
                            .what());
        }
    }

    @Test
    void external_data_lie_inside_their_file() throws IOException {
        Files.write(folder.resolve("w.bin"), new byte[64]);
        assertEquals(
                "external data has length 4, [2] x F32 needs 8",
                refused(Protos.external("t", "location", "w.bin", "length", "4")));
        assertEquals(
                "external data at 57 with 8 bytes goes beyond the end of 'w.bin', which has 64 bytes",
                refused(Protos.external("t", "location", "w.bin", "offset", "57")));
        assertEquals(
                "external data at 9223372036854775807 with 8 bytes goes beyond the end of 'w.bin', which has 64 bytes",
                refused(Protos.external("t", "location", "w.bin", "offset", Long.toString(Long.MAX_VALUE))));
        assertEquals(
                "external_data 'offset' is negative: -4",
                refused(Protos.external("t", "location", "w.bin", "offset", "-4")));
        assertEquals(
                "external_data 'length' is not a number: '8 bytes'",
                refused(Protos.external("t", "location", "w.bin", "length", "8 bytes")));
        assertEquals(
                "external_data has 'location' twice", refused(Protos.external("t", "location", "a", "location", "b")));
        assertEquals(
                "the tensor has both external data and data in the file",
                refused(Protos.external("t", "location", "w.bin").setRawData(ByteString.copyFrom(new byte[8]))));
    }

    @Test
    void external_data_of_training_graphs_are_refused() throws IOException {
        ModelProto.Builder m = Protos.model()
                .addTrainingInfo(TrainingInfoProto.newBuilder()
                        .setInitialization(
                                GraphProto.newBuilder().addInitializer(Protos.external("t", "location", "w"))));
        assertEquals(
                "training_info keeps tensor 't' in external data",
                refused(UnsupportedModelException.class, m.build().toByteArray())
                        .what());
    }

    // Limits

    private static GraphProto nested(int levels) {
        GraphProto g = GraphProto.newBuilder().setName("leaf").build();
        for (int i = 0; i < levels; i++) {
            g = GraphProto.newBuilder()
                    .addNode(NodeProto.newBuilder()
                            .setOpType("If")
                            .addOutput("y")
                            .addAttribute(AttributeProto.newBuilder()
                                    .setName("b")
                                    .setG(g)
                                    .setType(AttributeType.GRAPH)))
                    .build();
        }
        return g;
    }

    private static void parse(byte[] bytes, OnnxLimits limits) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            OnnxReader.parse(MemorySegment.ofArray(bytes), Place.file("m"), null, arena, limits);
        }
    }

    private static void passesAtButNotBelow(byte[] bytes, OnnxLimits at, OnnxLimits below, String what)
            throws IOException {
        parse(bytes, at);
        assertEquals(
                what,
                assertThrows(MalformedModelException.class, () -> parse(bytes, below))
                        .what());
    }

    @Test
    void nesting_ends_at_its_limit() throws IOException {
        OnnxLimits d = OnnxLimits.DEFAULT;
        // model, graph, then node + attribute + graph for each level
        byte[] bytes = Protos.model(nested(4).toBuilder()).build().toByteArray();
        passesAtButNotBelow(
                bytes,
                new OnnxLimits(14, d.messages(), d.values(), d.textBytes()),
                new OnnxLimits(13, d.messages(), d.values(), d.textBytes()),
                "messages are nested deeper than 13");
        parse(Protos.model(nested(32).toBuilder()).build().toByteArray(), d);
        byte[] deeper = Protos.model(nested(33).toBuilder()).build().toByteArray();
        assertThrows(MalformedModelException.class, () -> parse(deeper, d));
        byte[] abyss = Protos.model(nested(200).toBuilder()).build().toByteArray();
        assertThrows(MalformedModelException.class, () -> parse(abyss, d));
    }

    @Test
    void messages_values_and_text_end_at_their_limits() throws IOException {
        byte[] bytes = Protos.model(GraphProto.newBuilder()
                        .setName("12345")
                        .addNode(NodeProto.newBuilder().setOpType("Op").addOutput("y")))
                .build()
                .toByteArray();
        OnnxLimits d = OnnxLimits.DEFAULT;
        // messages: model, opset, graph, node
        passesAtButNotBelow(
                bytes,
                new OnnxLimits(100, 4, d.values(), d.textBytes()),
                new OnnxLimits(100, 3, d.values(), d.textBytes()),
                "there are more than 3 messages");
        // fields: ir_version, graph, name, node, op_type, output, opset_import, version
        passesAtButNotBelow(
                bytes,
                new OnnxLimits(100, 100, 8, d.textBytes()),
                new OnnxLimits(100, 100, 7, d.textBytes()),
                "there are more than 7 fields and list elements");
        passesAtButNotBelow(
                bytes,
                new OnnxLimits(100, 100, 100, 8),
                new OnnxLimits(100, 100, 100, 7),
                "text and pass-through fields take more than 7 bytes");
    }

    @Test
    void elements_of_packed_lists_count_as_values() throws IOException {
        byte[] bytes =
                Protos.with(Protos.tensor("t", 1, new long[1000])).build().toByteArray();
        assertThrows(MalformedModelException.class, () -> parse(bytes, new OnnxLimits(100, 100, 1000, 1000)));
        parse(bytes, new OnnxLimits(100, 100, 1100, 1000));
    }

    @Test
    void groups_are_walked_with_the_same_care() throws IOException {
        UnknownFieldSet group = UnknownFieldSet.newBuilder()
                .addField(99, UnknownFieldSet.Field.newBuilder().addVarint(3).build())
                .build();
        for (int i = 0; i < 50; i++) {
            group = UnknownFieldSet.newBuilder()
                    .addField(
                            100,
                            UnknownFieldSet.Field.newBuilder().addGroup(group).build())
                    .build();
        }
        ModelProto m = Protos.model().setUnknownFields(group).build();
        parse(m.toByteArray(), OnnxLimits.DEFAULT);
        byte[] bytes = m.toByteArray();
        assertThrows(MalformedModelException.class, () -> parse(bytes, new OnnxLimits(50, 100, 1000, 10000)));
        byte[] open = Arrays.copyOf(bytes, bytes.length - 2);
        assertThrows(MalformedModelException.class, () -> parse(open, OnnxLimits.DEFAULT));
    }

    @Test
    void the_field_number_octet_uses_inside_is_refused_in_files() throws IOException {
        TensorProto.Builder t =
                Protos.tensor("t", 1, 1).addHeld(TensorProto.Held.newBuilder().setField(9));
        assertTrue(refused(Protos.with(t)).startsWith("field number 536870911 is not ONNX's"));
    }
}
