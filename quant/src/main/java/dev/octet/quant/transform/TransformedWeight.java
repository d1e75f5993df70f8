package dev.octet.quant.transform;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.merge.WeightDelta;
import dev.octet.quant.work.Workers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * What transforms do to one weight, row by row. Rows that a rotation mixes are computed when the first is asked for, all of them, into
 * memory that the caller gives; every other step needs no more than the row. Each row has the same bits whatever thread asks for it.
 */
public final class TransformedWeight implements WeightDelta {
    /** Columns turned together: whole cache lines of each row. */
    private static final int STRIP = 64;

    private final List<WeightStep> steps;
    private final Rows base;
    private final long rows;
    private final int cols;
    private final Room room;
    private final int threads;
    private @Nullable MemorySegment mixed;

    /** Gives memory for the rows of one weight; it lives as long as it is reachable. */
    @FunctionalInterface
    public interface Room {
        /** On the heap of the process, off Java's. */
        Room MEMORY = bytes -> Arena.ofAuto().allocate(bytes, Double.BYTES);

        /** Memory of so many bytes. */
        MemorySegment of(long bytes);
    }

    /**
     * Steps on a weight.
     *
     * @param base the weight, read again where rows are mixed
     * @param room for the weight in F64 where rows are mixed
     * @param threads that mix rows
     */
    public TransformedWeight(List<WeightStep> steps, Rows base, long rows, int cols, Room room, int threads) {
        this.steps = List.copyOf(steps);
        this.base = base;
        this.rows = rows;
        this.cols = cols;
        this.room = room;
        this.threads = threads;
    }

    @Override
    public long rows() {
        return rows;
    }

    @Override
    public int cols() {
        return cols;
    }

    @Override
    public void apply(long row, float[] values) {
        double[] work = new double[cols];
        if (steps.stream().anyMatch(TransformedWeight::mixesRows)) {
            MemorySegment.copy(mixed(), Tensor.F64_LE, row * cols * Double.BYTES, work, 0, cols);
        } else {
            for (int i = 0; i < cols; i++) {
                work[i] = values[i];
            }
            withinRow(row, work);
        }
        for (int i = 0; i < cols; i++) {
            values[i] = (float) work[i];
        }
        for (WeightStep step : steps) {
            if (step instanceof WeightStep.Clip(String _, var clip)) {
                clip.get().apply(row, values);
            }
        }
    }

    private static boolean mixesRows(WeightStep step) {
        return step instanceof WeightStep.Turn(String _, Axis axis, Rotation _) && axis == Axis.ROW;
    }

    /** All steps that need no other row. */
    private void withinRow(long row, double[] work) {
        for (WeightStep step : steps) {
            switch (step) {
                case WeightStep.Scale(String _, Axis axis, var factors, double offset) -> {
                    double[] all = factors.get();
                    for (int i = 0; i < cols; i++) {
                        work[i] = (work[i] + offset) * all[axis == Axis.ROW ? (int) row : i] - offset;
                    }
                }
                case WeightStep.Turn(String _, Axis axis, Rotation rotation) -> {
                    for (int i = 0; axis == Axis.COLUMN && i < cols; i += rotation.size()) {
                        rotation.apply(work, i);
                    }
                }
                case WeightStep.Fill(String _, double value) -> Arrays.fill(work, value);
                case WeightStep.Clip _ -> {
                    // when the row is in F32
                }
            }
        }
    }

    /** The weight after its steps: F64, row-major. Steps across rows come after all others; the two kinds do not depend on each other. */
    private synchronized MemorySegment mixed() {
        MemorySegment known = mixed;
        if (known != null) {
            return known;
        }
        MemorySegment all = room.of(rows * cols * Double.BYTES);
        int bands = Math.toIntExact(Math.ceilDiv(rows, STRIP));
        Workers.run(bands, threads, band -> {
            float[] values = new float[cols];
            double[] work = new double[cols];
            for (long r = (long) band * STRIP; r < Math.min(rows, (band + 1L) * STRIP); r++) {
                base.read(r, values);
                for (int i = 0; i < cols; i++) {
                    work[i] = values[i];
                }
                withinRow(r, work);
                MemorySegment.copy(work, 0, all, Tensor.F64_LE, r * cols * Double.BYTES, cols);
            }
        });
        Workers.run(Math.ceilDiv(cols, STRIP), threads, strip -> turnRows(all, strip * STRIP));
        mixed = all;
        return all;
    }

    private void turnRows(MemorySegment all, int firstColumn) {
        int width = Math.min(STRIP, cols - firstColumn);
        int height = Math.toIntExact(rows);
        double[][] columns = new double[width][height];
        for (int r = 0; r < height; r++) {
            for (int c = 0; c < width; c++) {
                columns[c][r] = all.get(Tensor.F64_LE, ((long) r * cols + firstColumn + c) * Double.BYTES);
            }
        }
        for (WeightStep step : steps) {
            if (step instanceof WeightStep.Turn(String _, Axis axis, Rotation rotation) && axis == Axis.ROW) {
                for (double[] column : columns) {
                    for (int i = 0; i < height; i += rotation.size()) {
                        rotation.apply(column, i);
                    }
                }
            }
        }
        for (int r = 0; r < height; r++) {
            for (int c = 0; c < width; c++) {
                all.set(Tensor.F64_LE, ((long) r * cols + firstColumn + c) * Double.BYTES, columns[c][r]);
            }
        }
    }

    @Override
    public Optional<WeightDelta> inverse() {
        return Optional.empty();
    }

    @Override
    public boolean isIdentity() {
        return steps.isEmpty();
    }
}
