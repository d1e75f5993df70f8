package dev.octet.formats.onnx;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.CodedOutputStream;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.graph.GraphCheck;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.onnx.proto.GraphProto;
import dev.octet.formats.onnx.proto.ModelProto;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;

/**
 * Arbitrary bytes as a file: either a model that comes out as it went in, or a refusal that says what is wrong. How to fuzz:
 * docs/fuzzing.md.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class OnnxFuzzTest {
    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_a_model_that_survives_or_are_refused(byte[] bytes) throws IOException {
        parse(bytes);
    }

    /** Most arbitrary bytes fail early; here model and graph are right, and the fuzzer gets at the tensor. */
    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_tensor_survives_or_is_refused(byte[] bytes) throws IOException {
        byte[] graph = new byte[bytes.length + 16];
        CodedOutputStream out = CodedOutputStream.newInstance(graph);
        out.writeByteArray(GraphProto.INITIALIZER_FIELD_NUMBER, bytes);
        out.flush();
        byte[] head = ModelProto.newBuilder().setIrVersion(8).build().toByteArray();
        byte[] model = new byte[head.length + graph.length + 16];
        CodedOutputStream whole = CodedOutputStream.newInstance(model);
        whole.writeRawBytes(head);
        whole.writeByteArray(ModelProto.GRAPH_FIELD_NUMBER, graph, 0, out.getTotalBytesWritten());
        whole.flush();
        parse(Arrays.copyOf(model, whole.getTotalBytesWritten()));
    }

    private static void parse(byte[] bytes) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            GraphModel model;
            try {
                model = OnnxReader.parse(
                        MemorySegment.ofArray(bytes), Place.file("fuzz"), null, arena, OnnxLimits.DEFAULT);
            } catch (OctetException e) {
                return;
            }
            GraphCheck.check(model);
            byte[] once = written(model);
            GraphModel again =
                    OnnxReader.parse(MemorySegment.ofArray(once), Place.file("again"), null, arena, OnnxLimits.DEFAULT);
            // What was written once is written the same again: nothing gets lost or grows on the way.
            assertArrayEquals(once, written(again));
        }
    }

    private static byte[] written(GraphModel model) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        OnnxWriter.encode(model, ExternalLayout.none()).writeTo(b -> out.writeBytes(b.toArray(ValueLayout.JAVA_BYTE)));
        return out.toByteArray();
    }
}
