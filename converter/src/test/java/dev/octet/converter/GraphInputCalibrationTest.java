package dev.octet.converter;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.data.NpzDataset;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.evaluate.ModelComparison;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.formats.ModelFile;
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
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Models whose first Linear reads what the model is fed: {@code x [samples, 8]}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class GraphInputCalibrationTest {
    private static final int SAMPLES = 11;
    private static final int WIDTH = 8;

    /** Weights are {@code w*} [8, 8], biases {@code b*} [8]; the output is {@code y}. */
    record Net(String name, int linears, List<Node> nodes) {
        static final List<Net> ALL = List.of(
                of("matmul", 1, Node.of("first", "MatMul", List.of("x", "w0"), List.of("y"))),
                of(
                        "gemm",
                        1,
                        Node.of("first", "Gemm", List.of("x", "w0", "b0"), List.of("y"), Attribute.of("transB", 1))),
                of(
                        "mlp behind identity",
                        2,
                        Node.of("pass", "Identity", List.of("x"), List.of("h")),
                        Node.of("first", "Gemm", List.of("h", "w0", "b0"), List.of("m")),
                        Node.of("relu", "Relu", List.of("m"), List.of("r")),
                        Node.of("second", "Gemm", List.of("r", "w1", "b1"), List.of("y"))),
                of(
                        "mlp behind dropout",
                        2,
                        Node.of("drop", "Dropout", List.of("x"), List.of("h")),
                        Node.of("first", "MatMul", List.of("h", "w0"), List.of("m")),
                        Node.of("relu", "Relu", List.of("m"), List.of("r")),
                        Node.of("second", "MatMul", List.of("r", "w1"), List.of("y"))),
                of(
                        "two that read it",
                        2,
                        Node.of("left", "MatMul", List.of("x", "w0"), List.of("l")),
                        Node.of("right", "Gemm", List.of("x", "w1", "b1"), List.of("r")),
                        Node.of("sum", "Add", List.of("l", "r"), List.of("y"))));

        private static Net of(String name, int linears, Node... nodes) {
            return new Net(name, linears, List.of(nodes));
        }

        @Override
        public String toString() {
            return name;
        }

        GraphModel model() {
            ValueType rows = new ValueType.TensorType(DType.F32, List.of(Dim.of("samples"), Dim.of(WIDTH)));
            return GraphModel.of(
                    Graph.of(
                            "net",
                            nodes,
                            List.of(
                                    random("w0", WIDTH, WIDTH),
                                    random("w1", WIDTH, WIDTH),
                                    random("b0", WIDTH),
                                    random("b1", WIDTH)),
                            List.of(new ValueInfo("x", rows)),
                            List.of(new ValueInfo("y", rows))),
                    8,
                    17);
        }

        private static Initializer random(String name, long... dims) {
            Shape shape = Shape.of(dims);
            return Initializer.of(
                    Tensor.ofFloats(Arena.ofAuto(), name, shape, noise(name.hashCode(), (int) shape.elementCount())));
        }
    }

    static List<Net> nets() {
        return Net.ALL;
    }

    @TempDir
    Path folder;

    private Path npz;
    private final float[] x = noise(3, SAMPLES * WIDTH);

    private static float[] noise(long seed, int count) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    @BeforeEach
    void write_the_data() throws IOException {
        npz = folder.resolve("data.npz");
        try (Arena arena = Arena.ofConfined();
                NpzWriter w = NpzWriter.stored(npz)) {
            w.add(Tensor.ofFloats(arena, "x", Shape.of(SAMPLES, WIDTH), x));
            w.commit();
        }
    }

    /** What is done with a model that is open, its plan and the data. */
    private interface Work {
        void with(Converter converter, Plan plan, Dataset data) throws IOException;
    }

    private void open(Net net, Work work) throws IOException {
        Path file = folder.resolve("net.onnx");
        OnnxWriter.write(net.model(), file);
        try (ModelFile model = ModelFile.open(file);
                Converter converter = Converter.of(model.model());
                Dataset data = NpzDataset.open(npz, InputSpec.of(converter.source()))) {
            work.with(converter, converter.plan(Recipes.FP8_PER_CHANNEL, List.of()), data);
        }
    }

    @ParameterizedTest
    @MethodSource("nets")
    void the_statistics_of_the_input_are_those_of_the_data_in_one_piece_and_in_several(Net net) throws IOException {
        CalibrationOptions options = CalibrationOptions.defaults().withBatchSize(3);
        double amax = 0;
        for (float v : x) {
            amax = Math.max(amax, Math.abs(v));
        }
        double expected = amax;
        open(net, (converter, plan, data) -> {
            Statistics whole = converter.calibrate(plan, data, "net", options);
            TensorStatistics input = Objects.requireNonNull(whole.tensors().get("x"));
            assertEquals(x.length, input.count());
            assertEquals(expected, input.amax());
            assertEquals(whole, converter.calibrate(plan, data, "net", options.withMemory(0)));
        });
    }

    @ParameterizedTest
    @MethodSource("nets")
    void the_second_moments_of_the_input_are_those_of_the_data(Net net) throws IOException {
        open(net, (converter, plan, data) -> {
            Map<String, SecondMoment> moments = converter.moments(plan, data, CalibrationOptions.defaults());
            SecondMoment moment = Objects.requireNonNull(moments.get("x"));
            for (int i = 0; i < WIDTH; i++) {
                for (int j = 0; j <= i; j++) {
                    double expected = 0;
                    for (int row = 0; row < SAMPLES; row++) {
                        expected += (double) x[row * WIDTH + i] * x[row * WIDTH + j];
                    }
                    assertEquals(expected, moment.get(i, j), 1e-12);
                }
            }
        });
    }

    /** E4M3 keeps at least 4 significant bits of every factor: a sum of products is within a few per cent. */
    @ParameterizedTest
    @MethodSource("nets")
    void every_linear_becomes_fp8_and_the_outputs_stay_close(Net net) throws IOException {
        open(net, (converter, plan, data) -> {
            CalibrationOptions calibration = CalibrationOptions.defaults().withBatchSize(4);
            Conversion conversion = converter.convert(
                    plan,
                    converter.calibrate(plan, data, "net", calibration),
                    ConversionOptions.defaults().withMoments(converter.moments(plan, data, calibration)));
            assertEquals(
                    net.linears, conversion.plan().converted(LayerKind.LINEAR).size());
            assertEquals(net.linears, conversion.layers().size());
            Path quantised = folder.resolve("quantised.onnx");
            conversion.save(quantised);
            ModelComparison comparison =
                    Evaluation.compare(folder.resolve("net.onnx"), quantised, data, EvaluationOptions.defaults());
            double sqnr = comparison.outputs().getFirst().sqnrDb();
            assertTrue(sqnr > 22 && sqnr < 50, "SQNR " + sqnr);
        });
    }
}
