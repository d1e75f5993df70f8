package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Images through convolution, pooling and Linears with Relu between them: {@code octet train} in FP8, then {@code octet export}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ConvolutionTrainingTest {
    private static final int CLASSES = 5;

    @TempDir
    static Path folder;

    @BeforeAll
    static void train() throws IOException {
        model(folder.resolve("model.onnx"));
        samples(folder.resolve("train.npz"), 32);
        Files.writeString(folder.resolve("config.yaml"), """
            data: {train: train.npz}
            loss: {type: cross-entropy}
            batch_size: 8
            steps: 8
            precision: {mode: fp8, recipe: delayed, base: fp32, amax_history_len: 4}
            """);
        CommandLine line = CommandLine.run("train", at("model.onnx"), "--config", at("config.yaml"), "-o", at("run"));
        assertEquals(ExitCode.OK, line.code(), line.err());
    }

    private static String at(String name) {
        return folder.resolve(name).toString();
    }

    @ParameterizedTest
    @CsvSource({
        "onnx, m.onnx",
        "onnxruntime, o.onnx",
        "tensorrt, t.onnx",
        "compressed-tensors, c",
        "modelopt, m",
        "fp8, f",
        "transformer-engine, t.safetensors"
    })
    void every_target_is_written_and_proves_itself(String target, String name) throws IOException {
        CommandLine line = CommandLine.run("export", at("run"), "-o", at(name), "--target", target, "--json");
        assertEquals(ExitCode.OK, line.code(), line.out() + line.err());
        JsonNode proof = new ObjectMapper().readTree(line.out()).path("proof");
        assertTrue(proof.path("worst").asDouble() < 0.1, proof.toString());
    }

    /** Half of what comes before each Relu is negative: were one left out, the answers would be others. */
    private static void model(Path file) throws IOException {
        SplittableRandom random = new SplittableRandom(1);
        try (Arena arena = Arena.ofConfined()) {
            List<Initializer> weights = new ArrayList<>();
            weight(weights, arena, "conv.weight", random, 3, 1, 3, 3);
            weight(weights, arena, "conv.bias", random, 3);
            weight(weights, arena, "hidden.weight", random, 20, 48);
            weight(weights, arena, "hidden.bias", random, 20);
            weight(weights, arena, "head.weight", random, CLASSES, 20);
            weight(weights, arena, "head.bias", random, CLASSES);
            Attribute transposed = Attribute.of("transB", 1);
            Graph graph = Graph.of(
                    "convolution",
                    List.of(
                            Node.of(
                                    "conv",
                                    "Conv",
                                    List.of("images", "conv.weight", "conv.bias"),
                                    List.of("filtered"),
                                    Attribute.of("pads", List.of(1L, 1L, 1L, 1L))),
                            Node.of("relu", "Relu", List.of("filtered"), List.of("lit")),
                            Node.of(
                                    "pool",
                                    "MaxPool",
                                    List.of("lit"),
                                    List.of("pooled"),
                                    Attribute.of("kernel_shape", List.of(2L, 2L)),
                                    Attribute.of("strides", List.of(2L, 2L))),
                            Node.of("flatten", "Flatten", List.of("pooled"), List.of("flat")),
                            Node.of(
                                    "hidden",
                                    "Gemm",
                                    List.of("flat", "hidden.weight", "hidden.bias"),
                                    List.of("h"),
                                    transposed),
                            Node.of("relu2", "Relu", List.of("h"), List.of("active")),
                            Node.of(
                                    "head",
                                    "Gemm",
                                    List.of("active", "head.weight", "head.bias"),
                                    List.of("logits"),
                                    transposed)),
                    weights,
                    List.of(new ValueInfo("images", type(Dim.of("n"), Dim.of(1), Dim.of(8), Dim.of(8)))),
                    List.of(new ValueInfo("logits", type(Dim.of("n"), Dim.of(CLASSES)))));
            OnnxWriter.write(GraphModel.of(graph, 8, 17), file);
        }
    }

    private static ValueType type(Dim... dims) {
        return new ValueType.TensorType(DType.F32, List.of(dims));
    }

    private static void weight(
            List<Initializer> weights, Arena arena, String name, SplittableRandom random, long... dims) {
        Shape shape = Shape.of(dims);
        float[] values = new float[Math.toIntExact(shape.elementCount())];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) random.nextGaussian(0, 0.3);
        }
        weights.add(Initializer.of(Tensor.ofFloats(arena, name, shape, values)));
    }

    private static void samples(Path file, int count) throws IOException {
        SplittableRandom random = new SplittableRandom(2);
        float[] images = new float[count * 64];
        for (int i = 0; i < images.length; i++) {
            images[i] = (float) random.nextGaussian();
        }
        long[] labels = random.longs(count, 0, CLASSES).toArray();
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(file)) {
            writer.add(Tensor.ofFloats(arena, "images", Shape.of(count, 1, 8, 8), images));
            writer.add(Tensor.ofLongs(arena, "labels", Shape.of(count), labels));
            writer.commit();
        }
    }
}
