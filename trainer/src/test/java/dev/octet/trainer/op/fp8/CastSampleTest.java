package dev.octet.trainer.op.fp8;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.Arena;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CastSampleTest {
    private static final int ROWS = 12;
    private static final int COLS = 7;

    private static float[] values(long seed, int n, float outlier) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            x[i] = (float) random.nextDouble(-1, 1);
        }
        x[n / 2] *= outlier;
        return x;
    }

    private static CpuTensor tensor(Arena arena, float[] x, int rows, int cols) {
        Shape shape = Shape.of(rows, cols);
        return new CpuTensor(
                new OperandType(DType.F32, shape),
                Tensor.ofFloats(arena, "x", shape, x).bytes());
    }

    private static CodedMatrix form(int rows, int cols) {
        return new CodedMatrix(
                Float8Format.E4M3FN, CodedMatrix.whole(rows, cols), new TransformerEngineScale(0, false, false));
    }

    private static float quantised(float x, float amax) {
        float quantScale = 448 / amax;
        return Float8Format.E4M3FN.decode(Float8Format.E4M3FN.encode(x * quantScale, Overflow.SATURATE)) / quantScale;
    }

    private static float amax(float[] x) {
        float amax = 0;
        for (float v : x) {
            amax = Math.max(amax, Math.abs(v));
        }
        return amax;
    }

    /** Relative error of x·wᵀ, element by element. */
    private static double expected(float[] x, float[] w) {
        double error = 0;
        double norm = 0;
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < ROWS; j++) {
                double exact = 0;
                double cast = 0;
                for (int k = 0; k < COLS; k++) {
                    float a = x[i * COLS + k];
                    float b = w[j * COLS + k];
                    exact += (double) a * b;
                    cast += (double) quantised(a, amax(x)) * quantised(b, amax(w));
                }
                error += (cast - exact) * (cast - exact);
                norm += exact * exact;
            }
        }
        return Math.sqrt(error / norm);
    }

    private static double measured(float[] x, float[] w, int count) {
        try (Arena arena = Arena.ofConfined()) {
            CpuTensor left = tensor(arena, x, ROWS, COLS);
            // the right operand lies transposed, so that its vectors are columns
            float[] transposed = new float[w.length];
            for (int i = 0; i < ROWS; i++) {
                for (int k = 0; k < COLS; k++) {
                    transposed[k * ROWS + i] = w[i * COLS + k];
                }
            }
            CpuTensor right = tensor(arena, transposed, COLS, ROWS);
            CodedMatrix a = form(ROWS, COLS);
            CodedMatrix b = form(COLS, ROWS);
            return CastSample.productError(
                            CastSample.of(
                                    left, a, CastSample.quantScales(left, a, 0), new CastSample.Pick(true, count, 3)),
                            CastSample.of(
                                    right,
                                    b,
                                    CastSample.quantScales(right, b, 0),
                                    new CastSample.Pick(false, count, 3)))
                    .relative();
        }
    }

    @Test
    void the_error_over_all_vectors_is_that_of_the_product() {
        float[] x = values(1, ROWS * COLS, 1);
        float[] w = values(2, ROWS * COLS, 1);
        assertEquals(expected(x, w), measured(x, w, ROWS), 1e-6);
        assertTrue(measured(x, w, ROWS) < 0.06, "E4M3 keeps three bits");
    }

    @Test
    void an_outlier_that_takes_the_scale_shows_in_a_sample_of_other_rows() {
        float[] x = values(1, ROWS * COLS, 1e7f);
        float[] w = values(2, ROWS * COLS, 1);
        double some = measured(x, w, 4);
        assertTrue(some > 0.9 || expected(x, w) < 0.1, "others are 0: " + some);
        assertEquals(expected(x, w), measured(x, w, ROWS), 1e-6);
    }
}
