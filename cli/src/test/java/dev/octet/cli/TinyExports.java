package dev.octet.cli;

import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;

/** Exports of small models by torch, with data for them. */
final class TinyExports {
    private static final Path FOLDER =
            Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-onnx");
    private static final int SAMPLES = 8;

    private TinyExports() {}

    /** Their files. */
    static Stream<Path> models() throws IOException {
        try (Stream<Path> files = Files.list(FOLDER)) {
            // exports that ONNX Runtime itself refuses have nothing to be compared with
            return files
                    .filter(f -> f.toString().endsWith(".onnx") && !f.toString().contains("dynamo23"))
                    .sorted()
                    .toList()
                    .stream();
        }
    }

    /** Pictures or tokens; the path of the file, which is written. */
    static String samples(Path model, Path to) throws IOException {
        SplittableRandom random = new SplittableRandom(3);
        try (Arena arena = Arena.ofConfined();
                ModelFile opened = ModelFile.open(model);
                NpzWriter writer = NpzWriter.stored(to)) {
            for (ValueInfo input : opened.model().graph().orElseThrow().graph().requiredInputs()) {
                TensorType type = (TensorType) input.type();
                long[] dims = {SAMPLES, 12, 16, 16};
                List<Dim> own = type == null || type.dims() == null ? List.of() : type.dims();
                if (own.size() == 4) {
                    dims[1] = 3;
                }
                Shape shape = own.size() == 4 ? Shape.of(dims) : Shape.of(SAMPLES, 12);
                int n = (int) shape.elementCount();
                if (own.size() == 4) {
                    float[] values = new float[n];
                    for (int i = 0; i < n; i++) {
                        values[i] = (float) random.nextGaussian();
                    }
                    writer.add(Tensor.ofFloats(arena, input.name(), shape, values));
                } else {
                    boolean mask = input.name().contains("mask");
                    long[] values = random.longs(n, 1, mask ? 2 : 90).toArray();
                    writer.add(Tensor.ofLongs(arena, input.name(), shape, values));
                }
            }
            writer.commit();
        }
        return to.toString();
    }
}
