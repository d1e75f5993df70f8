package dev.octet.quant.merge;

import java.util.List;
import java.util.Optional;

/**
 * What an adapter or a transform does to one weight, row by row: rows of the weight as F32 become rows of the changed weight. Rows are counted over all
 * matrices of a weight of several (experts); a vector is one row. Every sum has a fixed order, so the result has the same bits whatever
 * thread computes which row.
 *
 * <p>The formulas are those of PEFT's {@code merge} (tuners/lora/layer.py, lora/dora.py, ia3/layer.py, ln_tuning/layer.py).
 */
public interface WeightDelta {
    /** Rows of the weight over all its matrices. */
    long rows();

    /** Elements of a row. */
    int cols();

    /**
     * Turns a row of the weight into that row of the merged weight. For use by several threads at once.
     *
     * @param row in {@code 0 .. rows() - 1}
     * @param values {@link #cols()} elements of the weight, replaced by those of the merged weight
     */
    void apply(long row, float[] values);

    /** What takes this back, up to rounding; empty where the weight cannot be found again. */
    Optional<WeightDelta> inverse();

    /** Whether it leaves every weight as it is, as an adapter does whose B is zero. */
    boolean isIdentity();

    /** Rows of a tensor as F32. */
    @FunctionalInterface
    interface Rows {
        /** Reads a row into {@code values}, which it fills. */
        void read(long row, float[] values);
    }

    /** Along which axis of a weight factors lie. */
    enum Axis {
        /** One factor for each row. */
        ROW,
        /** One factor for each column. */
        COLUMN
    }

    /**
     * Multiplies rows or columns: IA3, whose {@code ia3_l} multiplies the outputs of a Linear, or the inputs of one in
     * {@code feedforward_modules}.
     *
     * @param factors one for each row or column
     * @param rows of the weight
     * @param cols of the weight
     */
    @SuppressWarnings("ArrayRecordComponent") // applied, never compared
    record Factors(float[] factors, Axis axis, long rows, int cols) implements WeightDelta {
        /** PEFT's guard against a division by zero when it takes IA3 back. */
        private static final float EPSILON = 1e-8f;

        public Factors {
            long expected = axis == Axis.ROW ? rows : cols;
            if (factors.length != expected) {
                throw new IllegalArgumentException(factors.length + " factors for " + expected);
            }
        }

        @Override
        public void apply(long row, float[] values) {
            for (int i = 0; i < cols; i++) {
                values[i] *= axis == Axis.ROW ? factors[(int) row] : factors[i];
            }
        }

        @Override
        public Optional<WeightDelta> inverse() {
            float[] inverse = new float[factors.length];
            for (int i = 0; i < inverse.length; i++) {
                inverse[i] = 1 / (factors[i] + EPSILON);
            }
            return Optional.of(new Factors(inverse, axis, rows, cols));
        }

        @Override
        public boolean isIdentity() {
            return allAre(1, factors);
        }
    }

    /**
     * Adds to a vector: {@code lora_B.bias * scaling} to the bias of a Linear.
     *
     * @param values what is added, without the factor
     */
    @SuppressWarnings("ArrayRecordComponent") // applied, never compared
    record Added(float[] values, float factor) implements WeightDelta {
        @Override
        public long rows() {
            return 1;
        }

        @Override
        public int cols() {
            return values.length;
        }

        @Override
        public void apply(long row, float[] vector) {
            for (int i = 0; i < values.length; i++) {
                vector[i] += values[i] * factor;
            }
        }

        @Override
        public Optional<WeightDelta> inverse() {
            return Optional.of(new Added(values, -factor));
        }

        @Override
        public boolean isIdentity() {
            return factor == 0 || allAre(0, values);
        }
    }

    /**
     * Puts the adapter's own tensor in place of the weight: {@code modules_to_save}, trained biases (BitFit), LN tuning.
     *
     * @param source the adapter's tensor
     */
    record Replaced(Rows source, long rows, int cols) implements WeightDelta {
        @Override
        public void apply(long row, float[] values) {
            source.read(row, values);
        }

        @Override
        public Optional<WeightDelta> inverse() {
            return Optional.empty();
        }

        @Override
        public boolean isIdentity() {
            return false;
        }
    }

    /**
     * One after the other, as PEFT merges several adapters.
     *
     * @param parts at least one, all of the same rows and columns
     */
    record Sequence(List<WeightDelta> parts) implements WeightDelta {
        public Sequence {
            parts = List.copyOf(parts);
            for (WeightDelta part : parts) {
                if (part.rows() != parts.getFirst().rows()
                        || part.cols() != parts.getFirst().cols()) {
                    throw new IllegalArgumentException("deltas of different shapes");
                }
            }
        }

        @Override
        public long rows() {
            return parts.getFirst().rows();
        }

        @Override
        public int cols() {
            return parts.getFirst().cols();
        }

        @Override
        public void apply(long row, float[] values) {
            for (WeightDelta part : parts) {
                part.apply(row, values);
            }
        }

        @Override
        public Optional<WeightDelta> inverse() {
            List<WeightDelta> inverses =
                    parts.reversed().stream().flatMap(p -> p.inverse().stream()).toList();
            return inverses.size() == parts.size() ? Optional.of(new Sequence(inverses)) : Optional.empty();
        }

        @Override
        public boolean isIdentity() {
            return parts.stream().allMatch(WeightDelta::isIdentity);
        }
    }

    /** Whether all of {@code values} are {@code value}. */
    private static boolean allAre(float value, float[] values) {
        for (float v : values) {
            if (v != value) {
                return false;
            }
        }
        return true;
    }
}
