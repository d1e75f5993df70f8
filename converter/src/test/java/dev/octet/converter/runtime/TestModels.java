package dev.octet.converter.runtime;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/** Small models and data for tests: x [batch, length, 4] and an attention mask; {@code doubled = 2x}, {@code out = doubled + bias}. */
public final class TestModels {
    public static final String TAP = "doubled";

    private TestModels() {}

    public static GraphModel doubling(float bias) {
        Arena arena = Arena.ofAuto();
        ValueType x = new ValueType.TensorType(DType.F32, List.of(Dim.of("b"), Dim.of("s"), Dim.of(4)));
        ValueType mask = new ValueType.TensorType(DType.I64, List.of(Dim.of("b"), Dim.of("s")));
        return GraphModel.of(
                Graph.of(
                        "doubling",
                        List.of(
                                Node.of("double", "Mul", List.of("x", "two"), List.of(TAP)),
                                Node.of("add", "Add", List.of(TAP, "bias"), List.of("out")),
                                Node.of("pass", "Identity", List.of("attention_mask"), List.of("mask_out"))),
                        List.of(
                                Initializer.of(Tensor.ofFloats(arena, "two", Shape.SCALAR, 2f)),
                                Initializer.of(Tensor.ofFloats(arena, "bias", Shape.of(4), bias, 0, 0, 0))),
                        List.of(new ValueInfo("x", x), new ValueInfo("attention_mask", mask)),
                        List.of(new ValueInfo("out", x), new ValueInfo("mask_out", mask))),
                8,
                17);
    }

    /** {@code samples} samples of {@code length} tokens; sample i has 1 + i % length real ones, the rest hold 1e30 and a NaN. */
    public static Path data(Path path, int samples, int length, long seed) throws IOException {
        SplittableRandom random = new SplittableRandom(seed);
        Arena arena = Arena.ofAuto();
        float[] x = new float[samples * length * 4];
        long[] mask = new long[samples * length];
        for (int i = 0; i < samples; i++) {
            for (int t = 0; t < length; t++) {
                boolean real = t <= i % length;
                mask[i * length + t] = real ? 1 : 0;
                for (int k = 0; k < 4; k++) {
                    x[(i * length + t) * 4 + k] = real ? (float) random.nextDouble(-1, 1) : k == 0 ? Float.NaN : 1e30f;
                }
            }
        }
        try (NpzWriter w = NpzWriter.stored(path)) {
            w.add(Tensor.ofFloats(arena, "x", Shape.of(samples, length, 4), x));
            w.add(Tensor.ofLongs(arena, "attention_mask", Shape.of(samples, length), mask));
            w.commit();
        }
        return path;
    }

    /** Twice the elements of {@link #data} that are real, in order. */
    public static float[] expected(int samples, int length, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        List<Float> real = new ArrayList<>();
        for (int i = 0; i < samples; i++) {
            for (int n = 0; n < 4 * (1 + i % length); n++) {
                real.add(2 * (float) random.nextDouble(-1, 1));
            }
        }
        float[] values = new float[real.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = real.get(i);
        }
        return values;
    }
}
