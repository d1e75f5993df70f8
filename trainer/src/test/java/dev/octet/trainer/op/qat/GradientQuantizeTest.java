package dev.octet.trainer.op.qat;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import dev.octet.trainer.op.dropout.Dropout;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Cases are too large for central differences: the gradient is not the derivative of the forward pass, and meant not to be. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GradientQuantizeTest extends TwinTest {
    private static final Path FOLDER =
            Path.of(System.getProperty("octet.testdata"), "golden", "training", "qat-gradients");

    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                of(1, f32(3, 1111)),
                of(2, f32(700)),
                of(6, f32(2, 9, 50)),
                of(8, f32(1, 5000)),
                of(4, new OperandType(DType.BF16, Shape.of(7, 99))));
    }

    private static Case of(int bits, OperandType x) {
        GradientQuantize op = new GradientQuantize(x, bits, 42);
        return Case.normal(op + "", op, x, Dropout.DRAW_TYPE);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 6, 8})
    void gradients_have_the_bits_of_torch_with_the_same_noise(int bits) throws IOException {
        try (ModelFile opened = ModelFile.open(FOLDER.resolve("dorefa-" + bits + ".safetensors"))) {
            Model golden = opened.model();
            Tensor dy = golden.tensor("dy");
            GradientQuantize op =
                    new GradientQuantize(new OperandType(DType.F32, dy.shape()), bits, number(golden, "seed"));
            long key = op.key(number(golden, "step"), number(golden, "micro_batch"));
            float[] noise = golden.tensor("noise").toFloats();
            for (int i = 0; i < noise.length; i++) {
                assertEquals(noise[i], GradientQuantize.noise(key, i));
            }
            double[] up = doubles(dy.toFloats());
            double[] draw = {number(golden, "step"), number(golden, "micro_batch")};
            List<double[]> found =
                    gradients(op, List.of(op.x(), Dropout.DRAW_TYPE), List.of(new double[up.length], draw), up);
            assertArrayEquals(doubles(golden.tensor("dx").toFloats()), found.getFirst());
        }
    }

    private static long number(Model golden, String key) {
        return Long.parseLong(requireNonNull(golden.metadata().get(key)));
    }

    private static double[] doubles(float[] x) {
        double[] all = new double[x.length];
        for (int i = 0; i < x.length; i++) {
            all[i] = x[i];
        }
        return all;
    }

    @Test
    void the_mean_over_steps_is_the_gradient_itself() {
        GradientQuantize op = new GradientQuantize(f32(1, 4), 2, 7);
        float[] dy = {1, -0.3f, 0.11f, 0.7f};
        double[] sums = new double[dy.length];
        int steps = 20_000;
        for (int step = 0; step < steps; step++) {
            long key = op.key(step, 0);
            for (int i = 0; i < dy.length; i++) {
                sums[i] += op.gradient(dy[i], 1, GradientQuantize.noise(key, i));
            }
        }
        // the largest is clamped half of the time when noise would raise it, and loses nothing: it is a code
        for (int i = 0; i < dy.length; i++) {
            assertEquals(dy[i], sums[i] / steps, 5 * (2 / 3.0) / 2 / Math.sqrt(steps), "element " + i);
        }
    }

    @Test
    void what_is_not_finite_stays_so_that_the_step_is_skipped() {
        GradientQuantize op = new GradientQuantize(f32(1, 2), 4, 7);
        assertTrue(Float.isNaN(op.gradient(Float.NaN, Float.NaN, 0)));
        assertEquals(Float.POSITIVE_INFINITY, op.gradient(Float.POSITIVE_INFINITY, Float.POSITIVE_INFINITY, 0));
        assertEquals(0, op.gradient(0, 0, 0.3f));
    }
}
