package dev.octet.converter;

import static org.junit.jupiter.api.Assertions.assertNotEquals;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxValue;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.pass.ImportPasses;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Model;
import dev.octet.formats.onnx.OnnxFormat;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;

/**
 * The exports of {@code testdata/models/tiny-onnx}, and the checkpoints of {@code testdata/models/tiny-hf} that they were exported from, with
 * inputs and the outputs that PyTorch computed.
 */
public final class TinyModels {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models");

    private TinyModels() {}

    /** Every export that is there: architecture, exporter, opset. */
    public static List<String> names() throws IOException {
        try (DirectoryStream<Path> exports = Files.newDirectoryStream(MODELS.resolve("tiny-onnx"), "*.onnx")) {
            Set<String> names = new TreeSet<>();
            exports.forEach(e -> names.add(e.getFileName().toString().replaceFirst("\\.onnx$", "")));
            assertNotEquals(Set.of(), names);
            return List.copyOf(names);
        }
    }

    public static String architecture(String name) {
        return name.substring(0, name.indexOf('_'));
    }

    public static ModelFile open(String name) throws IOException {
        return ModelFile.open(MODELS.resolve("tiny-onnx/" + name + ".onnx"));
    }

    public static GraphModel graph(ModelFile file) {
        return file.model().graph().orElseThrow();
    }

    /** The model as it comes, and as it is behind the import passes: rules must know both. */
    public static List<GraphModel> spellings(ModelFile file) {
        return List.of(graph(file), ImportPasses.apply(graph(file), new PassLog()));
    }

    public static ModelFile checkpoint(String name) throws IOException {
        return ModelFile.open(MODELS.resolve("tiny-hf/" + architecture(name) + "/model.safetensors"));
    }

    /** Tensors {@code in.*} and {@code out.*}. */
    public static ModelFile golden(String name) throws IOException {
        return ModelFile.open(MODELS.resolve("tiny-hf/" + architecture(name) + "/golden.safetensors"));
    }

    public static Tensor tensor(ModelFile file, String name) {
        return Objects.requireNonNull(file.model().tensors().get(name), name);
    }

    public static JsonNode config(String name) throws IOException {
        return new ObjectMapper()
                .readTree(MODELS.resolve("tiny-hf/" + architecture(name) + "/config.json")
                        .toFile());
    }

    /**
     * The logits that ONNX Runtime computes with default options from the golden inputs.
     *
     * @param rows how many of the batch's rows to feed
     */
    public static float[] logits(GraphModel model, ModelFile golden, int rows, Path scratch)
            throws IOException, OrtException {
        new OnnxFormat().write(Model.of(model), scratch);
        OrtEnvironment environment = OrtEnvironment.getEnvironment();
        Map<String, OnnxTensor> inputs = new LinkedHashMap<>();
        try (OrtSession session = environment.createSession(scratch.toString())) {
            for (String input : session.getInputNames()) {
                Tensor t = tensor(golden, "in." + input);
                inputs.put(input, feed(environment, t, rows));
            }
            try (OrtSession.Result result = session.run(inputs)) {
                OnnxValue value = result.get(0);
                FloatBuffer buffer = ((OnnxTensor) value).getFloatBuffer();
                float[] logits = new float[buffer.remaining()];
                buffer.get(logits);
                return logits;
            }
        } finally {
            inputs.values().forEach(OnnxTensor::close);
        }
    }

    private static OnnxTensor feed(OrtEnvironment environment, Tensor t, int rows) throws OrtException {
        long[] shape = t.shape().toArray();
        int size = (int) (t.shape().elementCount() / shape[0] * rows);
        shape[0] = rows;
        return switch (t.dtype()) {
            case I64 -> OnnxTensor.createTensor(environment, LongBuffer.wrap(Arrays.copyOf(t.toLongs(), size)), shape);
            case F32 ->
                OnnxTensor.createTensor(environment, FloatBuffer.wrap(Arrays.copyOf(t.toFloats(), size)), shape);
            default -> throw new IllegalArgumentException(t.spec().toString());
        };
    }

    /**
     * How many rows of the batch ONNX Runtime can take: the rotary embedding of torch's opset 23 export has a cache for one row, and the
     * operator does not broadcast it.
     */
    public static int rows(String name) {
        return name.equals("llama_eager_dynamo23") ? 1 : 2;
    }

    /** max |a - b| / max |b|. */
    public static double relativeError(float[] a, float[] b) {
        double error = 0;
        double scale = 0;
        for (int i = 0; i < b.length; i++) {
            error = Math.max(error, Math.abs((double) a[i] - b[i]));
            scale = Math.max(scale, Math.abs(b[i]));
        }
        return error / scale;
    }
}
