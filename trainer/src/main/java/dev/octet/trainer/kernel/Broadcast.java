package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * Broadcasting of operands to a result shape (ONNX's multidirectional broadcasting, as in NumPy): a missing axis, or an axis of length 1,
 * is repeated along the result's axis.
 *
 * <p>Axes of length 1 are dropped, and adjacent axes that every operand either has or repeats are merged. The remaining axes are [n] for
 * equal shapes and for scalars, [rows, n] for a vector along the last axis, [b, h, t·t] for a mask [b, 1, t, t].
 */
public final class Broadcast {
    /** Lengths of the remaining axes, outermost first; at least one. */
    private final long[] dims;

    /** For each operand its stride along each remaining axis, in elements; 0 where it is repeated. */
    private final long[][] strides;

    private final boolean[] whole;

    private Broadcast(long[] dims, long[][] strides) {
        this.dims = dims;
        this.strides = strides;
        whole = new boolean[strides.length];
        for (int k = 0; k < strides.length; k++) {
            whole[k] = true;
            for (int d = 0; d < dims.length; d++) {
                whole[k] &= strides[k][d] != 0 || dims[d] == 1;
            }
        }
    }

    /** The broadcast shape of the operands; empty when they are incompatible. */
    public static Optional<Shape> shape(List<Shape> operands) {
        int rank = operands.stream().mapToInt(Shape::rank).max().orElse(0);
        long[] dims = new long[rank];
        Arrays.fill(dims, 1);
        for (Shape s : operands) {
            for (int i = 0; i < s.rank(); i++) {
                int at = rank - s.rank() + i;
                if (dims[at] == 1) {
                    dims[at] = s.dim(i);
                } else if (s.dim(i) != 1 && s.dim(i) != dims[at]) {
                    return Optional.empty();
                }
            }
        }
        return Optional.of(Shape.of(dims));
    }

    /** Broadcasting of {@code operands} to {@code result}. */
    public static Broadcast of(Shape result, Shape... operands) {
        List<Long> dims = new ArrayList<>();
        List<long[]> steps = new ArrayList<>(); // for each remaining axis, the stride of each operand
        long[] next = new long[operands.length];
        Arrays.fill(next, 1);
        for (int axis = result.rank() - 1; axis >= 0; axis--) {
            long dim = result.dim(axis);
            long[] step = new long[operands.length];
            for (int k = 0; k < operands.length; k++) {
                int at = axis - (result.rank() - operands[k].rank());
                long own = at < 0 ? 1 : operands[k].dim(at);
                if (own != 1 && own != dim) {
                    throw new IllegalArgumentException(operands[k] + " does not broadcast to " + result);
                }
                step[k] = own == 1 ? 0 : next[k];
                next[k] *= own;
            }
            if (dim == 1) {
                continue;
            }
            if (!dims.isEmpty() && continues(steps.getFirst(), dims.getFirst(), step)) {
                dims.set(0, dims.getFirst() * dim);
            } else {
                dims.addFirst(dim);
                steps.addFirst(step);
            }
        }
        if (dims.isEmpty()) {
            dims.add(1L);
            steps.add(new long[operands.length]);
        }
        long[][] strides = new long[operands.length][dims.size()];
        for (int k = 0; k < operands.length; k++) {
            for (int d = 0; d < dims.size(); d++) {
                strides[k][d] = steps.get(d)[k];
            }
        }
        return new Broadcast(dims.stream().mapToLong(Long::longValue).toArray(), strides);
    }

    /** Whether for every operand the outer strides continue an inner axis of length {@code dim}, so that the two axes can be merged. */
    private static boolean continues(long[] inner, long dim, long[] outer) {
        for (int k = 0; k < inner.length; k++) {
            if (outer[k] != inner[k] * dim) {
                return false;
            }
        }
        return true;
    }

    /** Number of elements of the result. */
    public long count() {
        long product = 1;
        for (long d : dims) {
            product *= d;
        }
        return product;
    }

    /** Lengths of the remaining axes, outermost first; at least one. */
    public long[] lengths() {
        return dims.clone();
    }

    /** The operand's stride along each remaining axis; 0 where it is repeated. */
    public long[] steps(int operand) {
        return strides[operand].clone();
    }

    /** Length of the outermost remaining axis. */
    public long outerLength() {
        return dims[0];
    }

    /** The operand's stride along the outermost remaining axis; 0 when it is repeated along that axis. */
    public long outerStride(int operand) {
        return strides[operand][0];
    }

    /** Whether the operand has all elements of the result, in the same order. */
    public boolean isWhole(int operand) {
        return whole[operand];
    }

    /** Index of the operand's element at element {@code i} of the result. */
    public long index(int operand, long i) {
        long at = 0;
        long rest = i;
        for (int d = dims.length - 1; d >= 0; d--) {
            at += rest % dims[d] * strides[operand][d];
            rest /= dims[d];
        }
        return at;
    }

    private long rowIndex(int operand, long row) {
        long[] s = strides[operand];
        int last = dims.length - 2;
        if (last <= 0) {
            return last < 0 ? 0 : row * s[0];
        }
        long at = 0;
        long rest = row;
        for (int d = last; d > 0; d--) {
            at += rest % dims[d] * s[d];
            rest /= dims[d];
        }
        return at + rest * s[0];
    }

    /** Reads the operand at elements {@code from .. from + n - 1} of the result, widened to F32, to the start of {@code tile}. */
    public void read(int operand, CpuTensor t, long from, float[] tile, int n) {
        if (whole[operand]) {
            t.read(from, tile, 0, n);
            return;
        }
        int inner = dims.length - 1;
        long length = dims[inner];
        boolean repeated = strides[operand][inner] == 0;
        long row = from / length;
        long column = from % length;
        for (int at = 0; at < n; row++) {
            int run = (int) Math.min(length - column, n - at);
            long start = rowIndex(operand, row);
            if (repeated) {
                t.read(start, tile, at, 1);
                Arrays.fill(tile, at + 1, at + run, tile[at]);
            } else {
                t.read(start + column, tile, at, run);
            }
            at += run;
            column = 0;
        }
    }

    /**
     * Folds a tile, which covers elements {@code from .. from + n - 1} of the result, into the operand's elements, over repeated axes.
     *
     * @param folded receives the operand's elements, from element {@code base} on
     */
    void fold(Fold fold, int operand, float[] tile, long from, int n, float[] folded, long base) {
        int inner = dims.length - 1;
        long length = dims[inner];
        boolean repeated = strides[operand][inner] == 0;
        long row = from / length;
        long column = from % length;
        float[] one = new float[1];
        for (int at = 0; at < n; row++) {
            int run = (int) Math.min(length - column, n - at);
            int to = (int) (rowIndex(operand, row) - base);
            if (repeated) {
                one[0] = fold.of(tile, at, run);
                fold.into(folded, to, one, 0, 1);
            } else {
                fold.into(folded, to + (int) column, tile, at, run);
            }
            at += run;
            column = 0;
        }
    }
}
