package dev.octet.formats.onnx;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OnnxLargeFileTest {
    private static final long TENSOR_BYTES = 64L << 20;

    @TempDir
    Path folder;

    /** Reads the model named first and writes it to the others, the last one with external data. Runs in a JVM with a small heap. */
    static final class ReadAndWrite {
        private ReadAndWrite() {}

        public static void main(String[] args) throws IOException {
            try (Arena arena = Arena.ofConfined()) {
                GraphModel model = OnnxReader.read(Path.of(args[0]), arena);
                OnnxWriter.write(model, Path.of(args[1]));
                OnnxWriter.write(model, Path.of(args[2]), OnnxWriteOptions.externalData(1024));
            }
        }
    }

    @Test
    void a_model_larger_than_the_heap_is_read_and_written() throws IOException, InterruptedException {
        Path in = folder.resolve("in.onnx");
        Path out = folder.resolve("out.onnx");
        Path split = folder.resolve("split.onnx");
        try (Arena arena = Arena.ofConfined()) {
            OnnxWriter.write(model(arena, TENSOR_BYTES), in);
        }
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-Xmx24m",
                        "-cp",
                        System.getProperty("java.class.path"),
                        ReadAndWrite.class.getName(),
                        in.toString(),
                        out.toString(),
                        split.toString())
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(true, process.waitFor(2, TimeUnit.MINUTES));
        assertEquals(0, process.exitValue(), said);
        assertEquals(-1, Files.mismatch(in, out));
        assertEquals(TENSOR_BYTES, Files.size(folder.resolve("split.onnx.data")));
    }

    /** {@code y = Add(x, w)} with {@code w} of so many bytes. */
    static GraphModel model(Arena arena, long bytes) {
        Tensor w = Tensor.allocate(arena, new TensorSpec("w", DType.F32, Shape.of(bytes / 4)));
        for (long i = 0; i < bytes; i += 4096) {
            w.bytes().set(Tensor.I32_LE, i, (int) i);
        }
        Graph g = Graph.of(
                "large",
                List.of(Node.of("add", "Add", List.of("x", "w"), List.of("y"))),
                List.of(Initializer.of(w)),
                List.of(new ValueInfo("x", null)),
                List.of(new ValueInfo("y", null)));
        return GraphModel.of(g, 8, 17);
    }
}
