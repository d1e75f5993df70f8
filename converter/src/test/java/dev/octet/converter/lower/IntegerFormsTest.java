package dev.octet.converter.lower;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtSession;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.plan.ActivationScale;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.plan.PlanRewrite;
import dev.octet.converter.plan.Planner;
import dev.octet.converter.plan.RoundToNearest;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.Quantizer;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.lang.foreign.Arena;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Integer Linears in ONNX Runtime with default options against the formulas of ONNX's operators. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class IntegerFormsTest {
    private static final int ROWS = 6;
    private static final int IN = 64;
    private static final int OUT = 32;

    private final Arena arena = Arena.ofShared();
    private final SplittableRandom random = new SplittableRandom(11);
    private final float[] x = normal(ROWS * IN, 1);
    private final float[] w = normal(IN * OUT, 0.1);
    private final float[] bias = normal(OUT, 1);

    @TempDir
    Path folder;

    @AfterEach
    void close() {
        arena.close();
    }

    private float[] normal(int n, double deviation) {
        float[] values = new float[n];
        for (int i = 0; i < n; i++) {
            values[i] = (float) (random.nextGaussian() * deviation);
        }
        return values;
    }

    /** A Linear whose weight is {@link #w} as [in, out], stored as {@code transB} says. */
    private GraphModel linear(boolean transB) {
        float[] stored = w.clone();
        for (int i = 0; transB && i < w.length; i++) {
            stored[i % OUT * IN + i / OUT] = w[i];
        }
        Graph g = Graph.of(
                "linear",
                List.of(Node.of(
                        "l",
                        "Linear",
                        Node.OCTET_DOMAIN,
                        List.of("x", "l.weight", "l.bias"),
                        List.of("y"),
                        Attribute.of("transB", transB ? 1 : 0))),
                List.of(
                        Initializer.of(Tensor.ofFloats(
                                arena, "l.weight", transB ? Shape.of(OUT, IN) : Shape.of(IN, OUT), stored)),
                        Initializer.of(Tensor.ofFloats(arena, "l.bias", Shape.of(OUT), bias))),
                List.of(new ValueInfo("x", new TensorType(DType.F32, List.of(Dim.of("b"), Dim.of("s"), Dim.of(IN))))),
                List.of(new ValueInfo("y", new TensorType(DType.F32, List.of(Dim.of("b"), Dim.of("s"), Dim.of(OUT))))));
        return GraphModel.of(g, 10, 21);
    }

    private float[] run(Recipe recipe, OnnxTarget target, boolean transB, float scale, int zero) throws Exception {
        GraphModel model = linear(transB);
        Plan plan = Planner.plan(model.graph(), recipe, List.of());
        Map<String, ActivationScale> scales = plan.taps().stream()
                .collect(Collectors.toMap(t -> t, t -> new ActivationScale(t, 4, 4, scale, zero, 0)));
        GraphModel rewritten = PlanRewrite.apply(
                        model, plan, scales, new RoundToNearest(Quantizer.sequential(), arena), arena)
                .model();
        Path file = folder.resolve("model.onnx");
        OnnxWriter.write(Lowering.lower(rewritten, target, arena, new PassLog()), file);
        OrtEnvironment env = OrtEnvironment.getEnvironment();
        try (OrtSession session = env.createSession(file.toString(), new OrtSession.SessionOptions());
                OnnxTensor in = OnnxTensor.createTensor(env, FloatBuffer.wrap(x), new long[] {2, ROWS / 2, IN});
                OrtSession.Result out = session.run(Map.of("x", in))) {
            float[] y = new float[ROWS * OUT];
            ((OnnxTensor) out.get(0)).getFloatBuffer().get(y);
            return y;
        }
    }

    /** The product of inputs and weights that were quantised and dequantised, in double precision, and the bias. */
    private double[] product(double[] inputs, double[] weights) {
        double[] y = new double[ROWS * OUT];
        for (int r = 0; r < ROWS; r++) {
            for (int o = 0; o < OUT; o++) {
                double sum = bias[o];
                for (int k = 0; k < IN; k++) {
                    sum += inputs[r * IN + k] * weights[k * OUT + o];
                }
                y[r * OUT + o] = sum;
            }
        }
        return y;
    }

    /** {@link #w} rounded with a scale for each output and each {@code block} inputs. */
    private double[] weights(int block, float divisor, int lowest, int highest) {
        double[] rounded = new double[w.length];
        for (int o = 0; o < OUT; o++) {
            for (int first = 0; first < IN; first += block) {
                float amax = 0;
                for (int k = first; k < first + block; k++) {
                    amax = Math.max(amax, Math.abs(w[k * OUT + o]));
                }
                float scale = amax / divisor;
                for (int k = first; k < first + block; k++) {
                    rounded[k * OUT + o] =
                            Math.clamp(Math.rint(w[k * OUT + o] / scale), lowest, highest) * (double) scale;
                }
            }
        }
        return rounded;
    }

    /** QuantizeLinear and DequantizeLinear of {@link #x}, codes from {@code lowest} to {@code lowest + 255}. */
    private double[] inputs(float scale, int zero, int lowest) {
        double[] rounded = new double[x.length];
        for (int i = 0; i < x.length; i++) {
            double code = Math.clamp(Math.rint(x[i] / scale) + zero, lowest, lowest + 255);
            rounded[i] = (code - zero) * scale;
        }
        return rounded;
    }

    private double[] inputsOfOwnRange() {
        float least = 0;
        float most = 0;
        for (float v : x) {
            least = Math.min(least, v);
            most = Math.max(most, v);
        }
        float scale = (most - least) / 255;
        return inputs(scale, (int) Math.rint(-least / scale), 0);
    }

    private double[] exact() {
        double[] values = new double[x.length];
        for (int i = 0; i < x.length; i++) {
            values[i] = x[i];
        }
        return values;
    }

    private static void assertNear(double[] want, float[] got, double tolerance) {
        assertEquals(want.length, got.length);
        for (int i = 0; i < want.length; i++) {
            assertEquals(want[i], got[i], tolerance, "element " + i);
        }
    }

    private static double sqnrDb(double[] want, float[] got) {
        double signal = 0;
        double noise = 0;
        for (int i = 0; i < want.length; i++) {
            signal += want[i] * want[i];
            noise += (want[i] - got[i]) * (want[i] - got[i]);
        }
        return 10 * Math.log10(signal / noise);
    }

    @ParameterizedTest(name = "transB {0}")
    @ValueSource(booleans = {false, true})
    void static_ranges_with_a_zero_point_give_what_the_operators_say(boolean transB) throws Exception {
        float scale = 7f / 255;
        float[] got = run(Recipes.GRAPH_INT8, OnnxTarget.ONNXRUNTIME, transB, scale, -20);
        assertNear(product(inputs(scale, -20, -128), weights(IN, 127, -127, 127)), got, 1e-4);
    }

    @ParameterizedTest(name = "transB {0}")
    @ValueSource(booleans = {false, true})
    void symmetric_ranges_for_tensorrt_give_what_the_operators_say(boolean transB) throws Exception {
        float scale = 4f / 127;
        float[] got = run(Recipes.GRAPH_INT8_SYMMETRIC, OnnxTarget.TENSORRT, transB, scale, 0);
        assertNear(product(inputs(scale, 0, -128), weights(IN, 127, -127, 127)), got, 1e-4);
    }

    @ParameterizedTest(name = "transB {0}")
    @ValueSource(booleans = {false, true})
    void dynamic_ranges_give_what_the_operators_say(boolean transB) throws Exception {
        float[] got = run(Recipes.INT8_DYNAMIC, OnnxTarget.ONNXRUNTIME, transB, 1, 0);
        assertNear(product(inputsOfOwnRange(), weights(IN, 127, -127, 127)), got, 1e-4);
    }

    @ParameterizedTest(name = "transB {0}")
    @ValueSource(booleans = {false, true})
    void four_bit_weights_with_static_inputs_give_what_the_operators_say(boolean transB) throws Exception {
        float scale = 7f / 255;
        float[] got = run(Recipes.INT4_INT8, OnnxTarget.ONNXRUNTIME, transB, scale, -20);
        assertNear(product(inputs(scale, -20, -128), weights(32, 7.5f, -8, 7)), got, 1e-4);
        assertThrows(InvalidOptionException.class, () -> OnnxTarget.TENSORRT.suited(Recipes.INT4_INT8));
    }

    /** ONNX Runtime makes MatMulNBits of both, which quantises inputs in blocks of its own to 8 bits: 35 dB are left. */
    @ParameterizedTest(name = "transB {0}")
    @ValueSource(booleans = {false, true})
    void weights_alone_are_those_of_the_recipe(boolean transB) throws Exception {
        float[] eight = run(Recipes.INT8_WEIGHT_ONLY, OnnxTarget.ONNXRUNTIME, transB, 1, 0);
        assertTrue(sqnrDb(product(exact(), weights(IN, 127, -127, 127)), eight) > 35);
        float[] four = run(Recipes.INT4_WEIGHT_ONLY, OnnxTarget.ONNXRUNTIME, transB, 1, 0);
        assertTrue(sqnrDb(product(exact(), weights(32, 7.5f, -8, 7)), four) > 35);
        float[] affine = run(Recipes.GRAPH_INT4_ASYMMETRIC, OnnxTarget.ONNXRUNTIME, transB, 1, 0);
        assertTrue(sqnrDb(product(exact(), affineWeights()), affine) > 35);
    }

    /** {@link #w} in codes 0 to 15 of the range of each output and 32 inputs, zero included. */
    private double[] affineWeights() {
        double[] rounded = new double[w.length];
        for (int o = 0; o < OUT; o++) {
            for (int first = 0; first < IN; first += 32) {
                float least = 0;
                float most = 0;
                for (int k = first; k < first + 32; k++) {
                    least = Math.min(least, w[k * OUT + o]);
                    most = Math.max(most, w[k * OUT + o]);
                }
                float scale = (float) (((double) most - least) / 15);
                double zero = Math.rint(-least / (double) scale);
                for (int k = first; k < first + 32; k++) {
                    double code = Math.clamp(Math.rint(w[k * OUT + o] / scale) + zero, 0, 15);
                    rounded[k * OUT + o] = (code - zero) * scale;
                }
            }
        }
        return rounded;
    }

    @Test
    void tensorrt_refuses_ranges_found_at_run_time_and_takes_no_zero_points() {
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, () -> OnnxTarget.TENSORRT.suited(Recipes.INT8_DYNAMIC));
        assertTrue(e.fix().contains("--recipe int8"), e.fix());
        assertThrows(InvalidOptionException.class, () -> OnnxTarget.TENSORRT.suited(Recipes.GRAPH_INT4_ASYMMETRIC));
        assertEquals(Recipes.GRAPH_INT8_SYMMETRIC, OnnxTarget.TENSORRT.suited(Recipes.GRAPH_INT8));
        assertTrue(requireNonNull(Recipes.GRAPH_INT8.input()).type().hasZeroPoint());
    }
}
