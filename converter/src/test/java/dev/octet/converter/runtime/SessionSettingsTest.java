package dev.octet.converter.runtime;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import dev.octet.converter.data.Batch;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SessionSettingsTest {
    @TempDir
    Path folder;

    @Test
    void groups_are_computed_as_written_without_kernels_of_ONNX_Runtime() throws IOException {
        try (Arena arena = Arena.ofShared();
                OnnxRuntimeSession session = OnnxRuntimeSession.open(model(arena), new SessionSettings(1, false))) {
            Tensor x = Tensor.ofFloats(arena, "x", Shape.of(1, 4), -2, -0.5f, 0.5f, 2);
            try (OnnxRuntimeSession.Outputs y = session.run(new Batch(0, 1, Map.of("x", x)))) {
                assertArrayEquals(new float[] {0, 0, 0.5f, 2}, y.read("y").toFloats());
            }
        }
    }

    /** y = DQ(Q(max(x, 0))). */
    private Path model(Arena arena) throws IOException {
        ValueType type = new ValueType.TensorType(DType.F32, List.of(Dim.of(1), Dim.of(4)));
        Graph graph = Graph.of(
                "relu",
                List.of(
                        Node.of("relu", "Relu", List.of("x"), List.of("r")),
                        Node.of("q", "QuantizeLinear", List.of("r", "scale", "zero"), List.of("c")),
                        Node.of("dq", "DequantizeLinear", List.of("c", "scale", "zero"), List.of("y"))),
                List.of(
                        Initializer.of(Tensor.ofFloats(arena, "scale", Shape.SCALAR, 1)),
                        Initializer.of(Tensor.allocate(arena, new TensorSpec("zero", DType.F8_E4M3FN, Shape.SCALAR)))),
                List.of(new ValueInfo("x", type)),
                List.of(new ValueInfo("y", type)));
        Path path = folder.resolve("relu.onnx");
        OnnxWriter.write(GraphModel.of(graph, 10, 21), path);
        return path;
    }
}
