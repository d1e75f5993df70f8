package dev.octet.trainer.op.qat;

import dev.octet.quant.number.CodeGrid;
import org.jspecify.annotations.Nullable;

/** The FP32 arithmetic of one element under an operator, shared by the twins on processors: whatever decides the bits of a code is in it. */
final class Steps {
    private final GridQuantize op;
    private final float[] post;
    private final float[] pre;
    private final float @Nullable [] offsets;
    private final float[] edges;

    /**
     * @param post steps of codes that are read, one for each block
     * @param pre steps of codes that are made
     * @param offsets as the operator uses them: zero points are rounded; null where there are none
     * @param edges the largest |x| that is not clipped, for the rules that compare x
     */
    private Steps(GridQuantize op, float[] post, float[] pre, float @Nullable [] offsets, float[] edges) {
        this.op = op;
        this.post = post;
        this.pre = pre;
        this.offsets = offsets;
        this.edges = edges;
    }

    /**
     * From the values of the inputs.
     *
     * @param offset null where absent; so are {@code before} and {@code global}
     */
    static Steps of(
            GridQuantize op,
            float[] parameters,
            float @Nullable [] offset,
            float @Nullable [] before,
            float @Nullable [] global) {
        if (offset != null && op.form().offset() == GridQuantize.Offset.MIN) {
            return between(op, offset, parameters);
        }
        float scale = global == null ? 1 : global[0];
        float[] post = steps(op, parameters, scale);
        float[] offsets = offset;
        if (offset != null && op.form().offset() == GridQuantize.Offset.ZERO_POINT) {
            offsets = new float[offset.length];
            for (int i = 0; i < offset.length; i++) {
                offsets[i] = op.zeroPoint(offset[i]);
            }
        }
        float[] edges = new float[post.length];
        for (int i = 0; i < edges.length; i++) {
            edges[i] = op.form().parameter() != GridQuantize.Parameter.STEP
                    ? parameters[i]
                    : post[i] * op.grid().high();
        }
        return new Steps(op, post, before == null ? post : steps(op, before, scale), offsets, edges);
    }

    private static Steps between(GridQuantize op, float[] least, float[] greatest) {
        float[] steps = new float[least.length];
        float[] zeros = new float[least.length];
        for (int i = 0; i < steps.length; i++) {
            steps[i] = op.stepBetween(least[i], greatest[i]);
            zeros[i] = op.zeroPoint(least[i], steps[i]);
        }
        return new Steps(op, steps, steps, zeros, greatest);
    }

    private static float[] steps(GridQuantize op, float[] parameters, float global) {
        float[] steps = new float[parameters.length];
        for (int i = 0; i < steps.length; i++) {
            steps[i] = op.step(parameters[i], global);
        }
        return steps;
    }

    /** y of one element of block {@code k}. */
    float value(float x, int k) {
        CodeGrid grid = op.grid();
        float[] o = offsets;
        if (o == null) {
            return grid.nearest(x / pre[k]) * post[k];
        }
        return op.form().offset() == GridQuantize.Offset.ADDED
                ? grid.nearest((x - o[k]) / pre[k]) * post[k] + o[k]
                : (code(x, k) - o[k]) * post[k];
    }

    /** The code of one element under a zero point. */
    private float code(float x, int k) {
        return Math.clamp(unclipped(x, k), op.grid().low(), op.grid().high());
    }

    private float unclipped(float x, int k) {
        float[] o = offsets;
        boolean reciprocal = op.form().parameter() == GridQuantize.Parameter.MAX;
        return (float) Math.rint(reciprocal ? x * (1 / pre[k]) : x / pre[k]) + (o == null ? 0 : o[k]);
    }

    /** Whether the code of one element under a zero point is not clipped. */
    private boolean inside(float x, int k) {
        float c = unclipped(x, k);
        return c >= op.grid().low() && c <= op.grid().high();
    }

    private float ratio(float x, int k) {
        float[] o = offsets;
        return (o != null && op.form().offset() == GridQuantize.Offset.ADDED ? x - o[k] : x) / pre[k];
    }

    /** dy/dx of one element. */
    float slope(float x, int k) {
        CodeGrid grid = op.grid();
        return switch (op.rule()) {
            case PASSED -> 1;
            case CLIPPED -> (op.form().hasZeroPoint() ? inside(x, k) : Math.abs(x) <= edges[k]) ? 1 : 0;
            case PACT -> x >= 0 && x <= edges[k] ? 1 : 0;
            case LSQ -> {
                float v = ratio(x, k);
                yield v > grid.low() && v < grid.high() ? 1 : 0;
            }
            case RANGE -> inside(x, k) ? 1 : 0;
            case SCALED -> Math.abs(x / pre[k]) <= grid.high() ? post[k] / pre[k] : 0;
        };
    }

    /** dy/dpost of one element; of y to α for PACT. */
    float stepSlope(float x, int k) {
        CodeGrid grid = op.grid();
        return switch (op.rule()) {
            case PASSED, CLIPPED -> 0;
            case PACT -> x >= edges[k] ? 1 : 0;
            case LSQ -> {
                float v = ratio(x, k);
                yield v <= grid.low() ? grid.low() : v >= grid.high() ? grid.high() : grid.nearest(v) - v;
            }
            case RANGE -> {
                float[] o = offsets;
                float c = unclipped(x, k);
                float q = Math.clamp(c, grid.low(), grid.high()) - (o == null ? 0 : o[k]);
                yield inside(x, k) ? q - x / pre[k] : q;
            }
            case SCALED -> {
                float q = grid.nearest(x / pre[k]);
                yield op.form().hasPre() ? q : q + preSlope(x, k);
            }
        };
    }

    /** dy/dpre of one element. */
    float preSlope(float x, int k) {
        float v = x / pre[k];
        return Math.abs(v) <= op.grid().high() ? -(v * (post[k] / pre[k])) : 0;
    }

    /** dy/doffset of one element. */
    float offsetSlope(float x, int k) {
        CodeGrid grid = op.grid();
        if (op.rule() == StepRule.RANGE) {
            return inside(x, k) ? 0 : -post[k];
        }
        float v = ratio(x, k);
        return v <= grid.low() || v >= grid.high() ? 1 : 0;
    }
}
