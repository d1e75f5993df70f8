package dev.octet.converter.pass;

import static org.junit.jupiter.api.Assertions.assertEquals;

import ai.onnxruntime.OnnxJavaType;
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxValue;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtLoggingLevel;
import ai.onnxruntime.OrtSession;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What ONNX Runtime computes, with its own optimisations off, so that a difference is ours. */
public final class OnnxRuntimeOracle {
    private OnnxRuntimeOracle() {}

    /** One output: its type and shape in words, and its bytes. */
    public record Output(String type, ByteBuffer bytes) {}

    /** Outputs of {@code model} for {@code inputs}; {@code folder} is for the file. */
    public static List<Output> run(GraphModel model, List<Tensor> inputs, Path folder)
            throws IOException, OrtException {
        Path file = Files.createTempFile(folder, "model", ".onnx");
        OnnxWriter.write(model, file);
        OrtEnvironment env = OrtEnvironment.getEnvironment();
        try (OrtSession.SessionOptions options = new OrtSession.SessionOptions()) {
            options.setOptimizationLevel(OrtSession.SessionOptions.OptLevel.NO_OPT);
            options.setIntraOpNumThreads(1);
            options.setSessionLogLevel(
                    OrtLoggingLevel.ORT_LOGGING_LEVEL_ERROR); // warns of constants that small graphs leave unused
            Map<String, OnnxTensor> feeds = new LinkedHashMap<>();
            try (OrtSession session = env.createSession(file.toString(), options)) {
                for (Tensor t : inputs) {
                    feeds.put(t.name(), tensor(env, t));
                }
                try (OrtSession.Result result = session.run(feeds)) {
                    List<Output> outputs = new ArrayList<>();
                    for (Map.Entry<String, OnnxValue> e : result) {
                        OnnxTensor t = (OnnxTensor) e.getValue();
                        ByteBuffer bytes = t.getByteBuffer();
                        ByteBuffer copy = ByteBuffer.allocate(bytes.remaining())
                                .put(bytes)
                                .flip();
                        outputs.add(new Output(
                                t.getInfo().type + Arrays.toString(t.getInfo().getShape()), copy));
                    }
                    return outputs;
                }
            } finally {
                feeds.values().forEach(OnnxTensor::close);
            }
        }
    }

    private static OnnxTensor tensor(OrtEnvironment env, Tensor t) throws OrtException {
        ByteBuffer bytes = ByteBuffer.allocateDirect((int) t.bytes().byteSize()).order(ByteOrder.nativeOrder());
        bytes.put(t.bytes().asByteBuffer()).flip();
        long[] shape = t.shape().toArray();
        return switch (t.dtype()) {
            case I64 -> OnnxTensor.createTensor(env, bytes.asLongBuffer(), shape);
            case BOOL -> OnnxTensor.createTensor(env, bytes, shape, OnnxJavaType.BOOL);
            case F16 -> OnnxTensor.createTensor(env, bytes, shape, OnnxJavaType.FLOAT16);
            case F64 -> OnnxTensor.createTensor(env, bytes, shape, OnnxJavaType.DOUBLE);
            case I8 -> OnnxTensor.createTensor(env, bytes, shape, OnnxJavaType.INT8);
            case I16 -> OnnxTensor.createTensor(env, bytes, shape, OnnxJavaType.INT16);
            case I32 -> OnnxTensor.createTensor(env, bytes, shape, OnnxJavaType.INT32);
            default -> OnnxTensor.createTensor(env, bytes.asFloatBuffer(), shape);
        };
    }

    /** Asserts that both models give the same bytes. */
    static void assertSame(GraphModel before, GraphModel after, List<Tensor> inputs, Path folder)
            throws IOException, OrtException {
        List<Output> expected = run(before, inputs, folder);
        List<Output> actual = run(after, inputs, folder);
        assertEquals(
                expected.stream().map(Output::type).toList(),
                actual.stream().map(Output::type).toList());
        for (int i = 0; i < expected.size(); i++) {
            assertEquals(expected.get(i).bytes(), actual.get(i).bytes(), "output " + i);
        }
    }
}
