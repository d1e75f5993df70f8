package dev.octet.quant.transform;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.merge.WeightGrid;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * AWQ's search for clips (mit-han-lab/llm-awq, auto_clip.py): of each group of a row, the largest magnitude times {@code 1 - i / 20}, i below
 * 10, whichever loses least. The loss of a group is {@code e^T H e} with its part of the inputs' second moment, over all samples; llm-awq
 * measures 512 tokens.
 */
public final class AwqClip implements WeightStep.RowClip {
    private static final int LEVELS = 10;
    private static final double STEP = 1.0 / 20;

    /** Groups beyond this size are not clipped: the search would take the square of it for every row. */
    public static final int LARGEST_GROUP = 1024;

    private final WeightGrid grid;
    private final float whole;
    private final int cols;
    private final int group;
    private final double[][] moments;

    /**
     * A search.
     *
     * @param moment of the inputs before their channels were divided by {@code factors}
     * @param factors of the channels
     * @param whole the scale of the whole weight, where the grid has one
     */
    public AwqClip(WeightGrid grid, float whole, SecondMoment moment, double[] factors) {
        this.grid = grid;
        this.whole = whole;
        this.cols = factors.length;
        this.group = AwqSearch.groupSize(grid, cols);
        this.moments = new double[Math.ceilDiv(cols, group)][];
        for (int g = 0; g < moments.length; g++) {
            int from = g * group;
            int size = Math.min(group, cols - from);
            moments[g] = new double[size * size];
            for (int i = 0; i < size; i++) {
                for (int j = 0; j < size; j++) {
                    moments[g][i * size + j] = moment.get(from + i, from + j) / (factors[from + i] * factors[from + j]);
                }
            }
        }
    }

    @Override
    public void apply(long row, float[] values) {
        float[] top = new float[moments.length];
        for (int c = 0; c < cols; c++) {
            top[c / group] = Math.max(top[c / group], Math.abs(values[c]));
        }
        float[] clips = top.clone();
        double[] least = new double[moments.length];
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment clipped = arena.allocate((long) cols * Float.BYTES, 64);
            MemorySegment rounded = arena.allocate(clipped.byteSize(), 64);
            for (int level = 0; level < LEVELS; level++) {
                double part = 1 - level * STEP;
                for (int c = 0; c < cols; c++) {
                    float clip = (float) (top[c / group] * part);
                    clipped.setAtIndex(Tensor.F32_LE, c, Math.clamp(values[c], -clip, clip));
                }
                grid.round(1, cols, clipped, whole, DType.F32, rounded);
                for (int g = 0; g < moments.length; g++) {
                    double loss = loss(g, values, rounded);
                    if (level == 0 || loss < least[g]) {
                        least[g] = loss;
                        clips[g] = (float) (top[g] * part);
                    }
                }
            }
        }
        for (int c = 0; c < cols; c++) {
            values[c] = Math.clamp(values[c], -clips[c / group], clips[c / group]);
        }
    }

    private double loss(int g, float[] values, MemorySegment rounded) {
        int from = g * group;
        int size = Math.min(group, cols - from);
        double[] errors = new double[size];
        for (int i = 0; i < size; i++) {
            errors[i] = (double) rounded.getAtIndex(Tensor.F32_LE, from + i) - values[from + i];
        }
        double sum = 0;
        for (int i = 0; i < size; i++) {
            double product = 0;
            for (int j = 0; j < size; j++) {
                product += moments[g][i * size + j] * errors[j];
            }
            sum += errors[i] * product;
        }
        return sum;
    }
}
