package dev.octet.trainer.op.qat;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.BFloat16;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.util.Arrays;
import java.util.function.BiFunction;

/** Element by element: codes by FP32 arithmetic, as everywhere, sums in F64. */
final class GridQuantizeReference implements ReferenceKernel<GridQuantize> {
    /** What a sum over the elements of a block adds up, by x and the number of the block. */
    private interface Slope extends BiFunction<Float, Integer, Float> {}

    @Override
    public void forward(GridQuantize op, Frame<double[]> frame) {
        Steps steps = steps(op, frame);
        double[] x = frame.input(GridQuantize.X);
        double[] y = frame.output(0);
        for (int i = 0; i < y.length; i++) {
            y[i] = round(steps.value((float) x[i], block(op, i)), op.x().dtype());
        }
    }

    @Override
    public void backward(GridQuantize op, Frame<double[]> frame) {
        if (op.rule() == StepRule.PASSED) {
            if (frame.wantsGradient(GridQuantize.X)) {
                double[] up = frame.upstream(0);
                System.arraycopy(up, 0, frame.gradient(GridQuantize.X), 0, up.length);
            }
            return;
        }
        Steps steps = steps(op, frame);
        if (frame.wantsGradient(GridQuantize.X)) {
            double[] x = frame.input(GridQuantize.X);
            double[] dx = frame.gradient(GridQuantize.X);
            for (int i = 0; i < dx.length; i++) {
                dx[i] = frame.upstream(0)[i] * steps.slope((float) x[i], block(op, i));
            }
        }
        sum(op, frame, GridQuantize.STEP, steps::stepSlope, op.parameterFactor());
        sum(op, frame, GridQuantize.PRE, steps::preSlope, op.parameterFactor());
        sum(op, frame, GridQuantize.OFFSET, steps::offsetSlope, op.factor());
    }

    private static void sum(GridQuantize op, Frame<double[]> frame, int input, Slope slope, double factor) {
        if (!frame.wantsGradient(input)) {
            return;
        }
        double[] x = frame.input(GridQuantize.X);
        double[] up = frame.upstream(0);
        double[] sums = frame.gradient(input);
        Arrays.fill(sums, 0);
        for (int i = 0; i < x.length; i++) {
            int k = block(op, i);
            sums[k] += up[i] * slope.apply((float) x[i], k);
        }
        for (int k = 0; k < sums.length; k++) {
            sums[k] *= factor;
        }
    }

    private static int block(GridQuantize op, int element) {
        return (int) op.blocks().scaleOf(element);
    }

    private static Steps steps(GridQuantize op, Frame<double[]> frame) {
        return Steps.of(
                op,
                floats(frame.input(GridQuantize.STEP)),
                frame.hasInput(GridQuantize.OFFSET) ? floats(frame.input(GridQuantize.OFFSET)) : null,
                frame.hasInput(GridQuantize.PRE) ? floats(frame.input(GridQuantize.PRE)) : null,
                frame.hasInput(GridQuantize.GLOBAL) ? floats(frame.input(GridQuantize.GLOBAL)) : null);
    }

    private static float[] floats(double[] x) {
        float[] all = new float[x.length];
        for (int i = 0; i < x.length; i++) {
            all[i] = (float) x[i];
        }
        return all;
    }

    private static double round(float x, DType type) {
        return switch (type) {
            case BF16 -> BFloat16.toFloat(BFloat16.fromFloat(x));
            case F16 -> Float.float16ToFloat(Float.floatToFloat16(x));
            default -> x;
        };
    }
}
