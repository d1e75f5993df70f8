package dev.octet.quant.merge;

import java.util.Optional;

/**
 * DoRA: the weight with its LoRA update, brought to the trained magnitude of each output, {@code m / ||W + BA|| * (W + BA)} (Liu et al.
 * 2024, arXiv:2402.09353). Norms are summed in F64 and rounded once.
 *
 * <p>The norm of an output of a weight that lies as {@code [in, out]} runs down a column, so such a weight is read once before.
 */
public final class Dora implements WeightDelta {
    private final LowRank update;
    private final float[] magnitude;
    /** The norms of columns; empty where outputs are rows, whose norms follow from the row. */
    private final float[] norms;

    private Dora(LowRank update, float[] magnitude, float[] norms) {
        this.update = update;
        this.magnitude = magnitude;
        this.norms = norms;
    }

    /**
     * Of a weight {@code [out, in]}.
     *
     * @param magnitude {@code [out]}
     */
    public static Dora ofRows(LowRank update, float[] magnitude) {
        if (magnitude.length != update.rows()) {
            throw new IllegalArgumentException(magnitude.length + " magnitudes for " + update.rows() + " outputs");
        }
        return new Dora(update, magnitude, new float[0]);
    }

    /**
     * Of a weight {@code [in, out]}.
     *
     * @param magnitude {@code [out]}
     * @param weight the weight itself, all of whose rows are read
     */
    public static Dora ofColumns(LowRank update, float[] magnitude, Rows weight) {
        if (magnitude.length != update.cols()) {
            throw new IllegalArgumentException(magnitude.length + " magnitudes for " + update.cols() + " outputs");
        }
        double[] squares = new double[magnitude.length];
        float[] row = new float[magnitude.length];
        for (long r = 0; r < update.rows(); r++) {
            weight.read(r, row);
            update.apply(r, row);
            for (int i = 0; i < row.length; i++) {
                squares[i] += (double) row[i] * row[i];
            }
        }
        float[] norms = new float[squares.length];
        for (int i = 0; i < norms.length; i++) {
            norms[i] = (float) Math.sqrt(squares[i]);
        }
        return new Dora(update, magnitude, norms);
    }

    @Override
    public long rows() {
        return update.rows();
    }

    @Override
    public int cols() {
        return update.cols();
    }

    @Override
    public void apply(long row, float[] values) {
        update.apply(row, values);
        if (norms.length > 0) {
            for (int i = 0; i < norms.length; i++) {
                values[i] *= magnitude[i] / norms[i];
            }
            return;
        }
        double squares = 0;
        for (int i = 0; i < cols(); i++) {
            squares += (double) values[i] * values[i];
        }
        float scale = magnitude[Math.toIntExact(row)] / (float) Math.sqrt(squares);
        for (int i = 0; i < cols(); i++) {
            values[i] *= scale;
        }
    }

    /** Empty: the merged rows have the trained magnitude, and what they had before is lost. */
    @Override
    public Optional<WeightDelta> inverse() {
        return Optional.empty();
    }

    /** False: the magnitudes of the weight are not known here. */
    @Override
    public boolean isIdentity() {
        return false;
    }
}
