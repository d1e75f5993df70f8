package dev.octet.quant.gptq;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;

/** Random rows and weights for the tests of this room. */
final class Samples {
    private Samples() {}

    /** Rows of {@code size} channels that depend on each other and differ in strength, as activations do. */
    static float[][] correlatedRows(int rows, int size, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        int sources = Math.max(1, size / 2);
        double[][] mix = new double[size][sources];
        for (double[] channel : mix) {
            double strength = Math.exp(random.nextGaussian());
            for (int s = 0; s < sources; s++) {
                channel[s] = strength * random.nextGaussian();
            }
        }
        float[][] x = new float[rows][size];
        for (float[] row : x) {
            double[] source = random.doubles(sources, -1, 1).toArray();
            for (int c = 0; c < size; c++) {
                double sum = 0.1 * random.nextGaussian();
                for (int s = 0; s < sources; s++) {
                    sum += mix[c][s] * source[s];
                }
                row[c] = (float) sum;
            }
        }
        return x;
    }

    /** The moment of some rows. */
    static SecondMoment moment(float[][] rows) {
        SecondMoment moment = new SecondMoment(rows[0].length);
        for (float[] row : rows) {
            moment.add(MemorySegment.ofArray(row));
        }
        return moment;
    }

    /** The moment of rows that make H the identity times {@code size}: one channel each. */
    static SecondMoment identity(int size) {
        float[][] rows = new float[size][size];
        for (int i = 0; i < size; i++) {
            rows[i][i] = 2;
        }
        return moment(rows);
    }

    /** An F32 weight {@code [out, in]}. */
    static Tensor weight(Arena arena, int out, int in, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] values = new float[out * in];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return Tensor.ofFloats(arena, "w", Shape.of(out, in), values);
    }

    /** The same weight the other way round. */
    static Tensor transposed(Tensor weight, Arena arena) {
        long rows = weight.shape().dim(0);
        long columns = weight.shape().dim(1);
        Tensor result = Tensor.allocate(arena, new TensorSpec(weight.name(), DType.F32, Shape.of(columns, rows)));
        for (long r = 0; r < rows; r++) {
            for (long c = 0; c < columns; c++) {
                float value = weight.bytes().get(Tensor.F32_LE, (r * columns + c) * 4);
                result.bytes().set(Tensor.F32_LE, (c * rows + r) * 4, value);
            }
        }
        return result;
    }
}
