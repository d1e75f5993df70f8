package dev.octet.converter.infer;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Operators that put elements elsewhere without looking at them: each computes where every element of the result comes from.
 * All return null when the operands do not fit or the result would be too large to follow.
 */
final class Movement {
    private Movement() {}

    static @Nullable KnownValue reshape(KnownValue x, boolean allowZero, long @Nullable [] target) {
        if (target == null) {
            return null;
        }
        long[] dims = target.clone();
        int open = -1;
        long known = 1;
        for (int i = 0; i < dims.length; i++) {
            if (dims[i] == 0 && !allowZero) {
                if (i >= x.shape().rank()) {
                    return null;
                }
                dims[i] = x.shape().dim(i);
            }
            if (dims[i] == -1 && open < 0) {
                open = i;
            } else if (dims[i] < 0 || dims[i] > KnownValue.MAX_ELEMENTS) {
                return null;
            } else {
                known = Math.min(known * dims[i], Long.MAX_VALUE >> 20); // saturates far above MAX_ELEMENTS
            }
        }
        if (open >= 0) {
            if (known == 0 || x.size() % known != 0) {
                return null;
            }
            dims[open] = x.size() / known;
        }
        return reshaped(x, dims);
    }

    private static @Nullable KnownValue reshaped(KnownValue x, long... dims) {
        Shape shape = Shapes.small(dims).orElse(null);
        return shape == null || shape.elementCount() != x.size() ? null : x.reshaped(shape);
    }

    static @Nullable KnownValue flatten(KnownValue x, long axis) {
        int rank = x.shape().rank();
        long a = axis < 0 ? axis + rank : axis;
        if (a < 0 || a > rank) {
            return null;
        }
        long rows = 1;
        long columns = 1;
        for (int i = 0; i < rank; i++) {
            if (i < a) {
                rows *= x.shape().dim(i);
            } else {
                columns *= x.shape().dim(i);
            }
        }
        return reshaped(x, rows, columns);
    }

    /** {@code axes} empty: every dimension of size 1 goes. */
    static @Nullable KnownValue squeeze(KnownValue x, long @Nullable [] axes) {
        if (axes == null) {
            return null;
        }
        int rank = x.shape().rank();
        boolean[] gone = new boolean[rank];
        for (long axis : axes) {
            Integer a = Shapes.axis(axis, rank).orElse(null);
            if (a == null || x.shape().dim(a) != 1) {
                return null;
            }
            gone[a] = true;
        }
        List<Long> dims = new ArrayList<>();
        for (int i = 0; i < rank; i++) {
            if (axes.length == 0 ? x.shape().dim(i) != 1 : !gone[i]) {
                dims.add(x.shape().dim(i));
            }
        }
        return reshaped(x, dims.stream().mapToLong(Long::longValue).toArray());
    }

    static @Nullable KnownValue unsqueeze(KnownValue x, long @Nullable [] axes) {
        if (axes == null) {
            return null;
        }
        int rank = x.shape().rank() + axes.length;
        long[] dims = new long[rank];
        Arrays.fill(dims, -1);
        for (long axis : axes) {
            Integer a = Shapes.axis(axis, rank).orElse(null);
            if (a == null || dims[a] == 1) {
                return null;
            }
            dims[a] = 1;
        }
        for (int i = 0, from = 0; i < rank; i++) {
            if (dims[i] < 0) {
                dims[i] = x.shape().dim(from++);
            }
        }
        return reshaped(x, dims);
    }

    static @Nullable KnownValue transpose(KnownValue x, @Nullable List<Long> perm) {
        int rank = x.shape().rank();
        long[] dims = new long[rank];
        long[] strides = strides(x.shape());
        long[] moved = new long[rank];
        boolean[] seen = new boolean[rank];
        for (int i = 0; i < rank; i++) {
            long p = perm == null ? rank - 1 - i : perm.size() == rank ? perm.get(i) : -1;
            if (p < 0 || p >= rank || seen[(int) p]) {
                return null;
            }
            seen[(int) p] = true;
            dims[i] = x.shape().dim((int) p);
            moved[i] = strides[(int) p];
        }
        return KnownValue.pick(Shape.of(dims), strided(Shape.of(dims), 0, moved), x);
    }

    private static long[] strides(Shape shape) {
        long[] strides = new long[shape.rank()];
        long stride = 1;
        for (int i = shape.rank() - 1; i >= 0; i--) {
            strides[i] = stride;
            stride *= shape.dim(i);
        }
        return strides;
    }

    /** For each element of {@code shape}, {@code start} plus its coordinates times {@code strides}. */
    private static int[] strided(Shape shape, long start, long[] strides) {
        int[] from = new int[(int) shape.elementCount()];
        for (int e = 0; e < from.length; e++) {
            long rest = e;
            long at = start;
            for (int i = shape.rank() - 1; i >= 0; i--) {
                at += rest % shape.dim(i) * strides[i];
                rest /= shape.dim(i);
            }
            from[e] = (int) at;
        }
        return from;
    }

    static @Nullable KnownValue gather(KnownValue x, @Nullable KnownValue indices, long axis) {
        Integer a = Shapes.axis(axis, x.shape().rank()).orElse(null);
        long[] ids = indices == null ? null : indices.integers().orElse(null);
        if (a == null || ids == null || indices == null) {
            return null;
        }
        long[] dims = new long[x.shape().rank() - 1 + indices.shape().rank()];
        int next = 0;
        long outer = 1;
        long inner = 1;
        for (int i = 0; i < a; i++) {
            dims[next++] = x.shape().dim(i);
            outer *= x.shape().dim(i);
        }
        for (int i = 0; i < indices.shape().rank(); i++) {
            dims[next++] = indices.shape().dim(i);
        }
        for (int i = a + 1; i < x.shape().rank(); i++) {
            dims[next++] = x.shape().dim(i);
            inner *= x.shape().dim(i);
        }
        Shape shape = Shapes.small(dims).orElse(null);
        if (shape == null) {
            return null;
        }
        long size = x.shape().dim(a);
        int[] from = new int[(int) shape.elementCount()];
        int e = 0;
        for (long o = 0; o < outer; o++) {
            for (long id : ids) {
                long row = id < 0 ? id + size : id;
                if (row < 0 || row >= size) {
                    return null;
                }
                for (long k = 0; k < inner; k++) {
                    from[e++] = (int) ((o * size + row) * inner + k);
                }
            }
        }
        return KnownValue.pick(shape, from, x);
    }

    /** {@code axes} null: the first ones; {@code steps} null: 1. Starts and ends clamp as the specification of Slice-13 says. */
    static @Nullable KnownValue slice(
            KnownValue x, long[] starts, long[] ends, long @Nullable [] axes, long @Nullable [] steps) {
        int rank = x.shape().rank();
        long[] dims = x.shape().toArray();
        long[] strides = strides(x.shape());
        long base = 0;
        if (ends.length != starts.length
                || (axes != null && axes.length != starts.length)
                || (steps != null && steps.length != starts.length)) {
            return null;
        }
        boolean[] seen = new boolean[rank];
        for (int i = 0; i < starts.length; i++) {
            Integer a = Shapes.axis(axes == null ? i : axes[i], rank).orElse(null);
            long step = steps == null ? 1 : steps[i];
            if (a == null || seen[a] || step == 0 || step == Long.MIN_VALUE) {
                return null;
            }
            seen[a] = true;
            long size = x.shape().dim(a);
            long start = sliceBound(starts[i], size, step, false);
            dims[a] = sliceLength(starts[i], ends[i], step, size);
            if (dims[a] > 0) {
                base += start * strides[a];
                strides[a] *= step;
            }
        }
        Shape shape = Shape.of(dims);
        return KnownValue.pick(shape, strided(shape, base, strides), x);
    }

    /** A start or end index brought into range: [0, size] going up, [0, size - 1] (end: [-1, size - 1]) going down. */
    private static long sliceBound(long bound, long size, long step, boolean end) {
        long b = bound < 0 ? Math.max(bound + size, -1) : bound;
        return step > 0 ? Math.clamp(b, 0, size) : Math.clamp(b, end ? -1 : 0, Math.max(size - 1, end ? -1 : 0));
    }

    /** How many elements Slice takes of a dimension of {@code size}. */
    static long sliceLength(long start, long end, long step, long size) {
        long s = sliceBound(start, size, step, false);
        long e = sliceBound(end, size, step, true);
        long span = step > 0 ? e - s : s - e;
        // steps of huge magnitude take one element; ceilDiv of a span never overflows
        return size == 0 || span <= 0 ? 0 : Math.ceilDiv(span, Math.abs(step));
    }

    static @Nullable KnownValue concat(List<KnownValue> parts, long axis) {
        KnownValue first = parts.getFirst();
        Integer a = Shapes.axis(axis, first.shape().rank()).orElse(null);
        if (a == null) {
            return null;
        }
        long[] dims = first.shape().toArray();
        dims[a] = 0;
        for (KnownValue p : parts) {
            if (p.shape().rank() != dims.length || p.dtype() != first.dtype()) {
                return null;
            }
            for (int i = 0; i < dims.length; i++) {
                if (i != a && p.shape().dim(i) != dims[i]) {
                    return null;
                }
            }
            dims[a] += p.shape().dim(a);
        }
        Shape shape = Shapes.small(dims).orElse(null);
        if (shape == null) {
            return null;
        }
        long outer = 1;
        for (int i = 0; i < a; i++) {
            outer *= dims[i];
        }
        int[] from = new int[(int) shape.elementCount()];
        int e = 0;
        for (int o = 0; o < outer; o++) {
            int start = 0;
            for (KnownValue p : parts) {
                int run = (int) (p.size() / outer);
                for (int k = 0; k < run; k++) {
                    from[e++] = start + o * run + k;
                }
                start += p.size();
            }
        }
        return KnownValue.pick(shape, from, parts.toArray(KnownValue[]::new));
    }

    /** {@code sizes} null: {@code count} equal parts, the last one smaller where it does not come out even. */
    static @Nullable List<KnownValue> split(KnownValue x, long axis, long @Nullable [] sizes, int count) {
        Integer a = Shapes.axis(axis, x.shape().rank()).orElse(null);
        if (a == null || (sizes != null && sizes.length != count) || count == 0) {
            return null;
        }
        long size = x.shape().dim(a);
        long chunk = Math.ceilDiv(size, (long) count);
        List<KnownValue> parts = new ArrayList<>();
        long start = 0;
        for (int i = 0; i < count; i++) {
            long length = sizes == null ? Math.clamp(size - start, 0, chunk) : sizes[i];
            if (length < 0 || length > size - start) {
                return null;
            }
            KnownValue part = slice(x, new long[] {start}, new long[] {start + length}, new long[] {a}, null);
            if (part == null) {
                return null;
            }
            parts.add(part);
            start += length;
        }
        return start == size ? parts : null;
    }

    static @Nullable KnownValue expand(KnownValue x, long @Nullable [] target) {
        Shape wanted = target == null ? null : Shapes.small(target).orElse(null);
        Shape shape =
                wanted == null ? null : BroadcastShape.join(x.shape(), wanted).orElse(null);
        return shape == null ? null : KnownValue.pick(shape, BroadcastShape.indices(x.shape(), shape), x);
    }

    static @Nullable KnownValue tile(KnownValue x, long @Nullable [] repeats) {
        int rank = x.shape().rank();
        if (repeats == null || repeats.length != rank) {
            return null;
        }
        long[] dims = new long[rank];
        for (int i = 0; i < rank; i++) {
            if (repeats[i] < 0 || repeats[i] > KnownValue.MAX_ELEMENTS) {
                return null;
            }
            dims[i] = x.shape().dim(i) * repeats[i];
        }
        Shape shape = Shapes.small(dims).orElse(null);
        if (shape == null) {
            return null;
        }
        long[] strides = strides(x.shape());
        int[] from = new int[(int) shape.elementCount()];
        for (int e = 0; e < from.length; e++) {
            long rest = e;
            long at = 0;
            for (int i = rank - 1; i >= 0; i--) {
                at += rest % shape.dim(i) % x.shape().dim(i) * strides[i];
                rest /= shape.dim(i);
            }
            from[e] = (int) at;
        }
        return KnownValue.pick(shape, from, x);
    }

    /** Keeps the upper (or lower) triangle of each matrix, seen from diagonal {@code k}, and sets the rest to zero. */
    static @Nullable KnownValue trilu(KnownValue x, boolean upper, long @Nullable [] k) {
        int rank = x.shape().rank();
        if (rank < 2 || k == null || k.length != 1) {
            return null;
        }
        long rows = x.shape().dim(-2);
        long columns = x.shape().dim(-1);
        long diagonal = Math.clamp(k[0], -rows - 1, columns + 1);
        int[] from = new int[x.size()];
        for (int e = 0; e < from.length; e++) {
            long row = e / columns % rows;
            long column = e % columns;
            boolean kept = upper ? column - row >= diagonal : column - row <= diagonal;
            from[e] = kept ? e : x.size(); // one past the end: the zero
        }
        return KnownValue.pick(x.shape(), from, x, KnownValue.of(x.dtype(), Shape.SCALAR, 0));
    }

    static @Nullable KnownValue where(KnownValue condition, @Nullable KnownValue x, @Nullable KnownValue y) {
        if (x == null
                || y == null
                || x.dtype() != y.dtype()
                || condition.dtype() != DType.BOOL
                || !condition.isComplete()) {
            return null;
        }
        Shape shape = BroadcastShape.join(x.shape(), y.shape())
                .flatMap(s -> BroadcastShape.join(s, condition.shape()))
                .orElse(null);
        if (shape == null) {
            return null;
        }
        int[] fromCondition = BroadcastShape.indices(condition.shape(), shape);
        int[] fromX = BroadcastShape.indices(x.shape(), shape);
        int[] fromY = BroadcastShape.indices(y.shape(), shape);
        int[] from = new int[fromX.length];
        for (int e = 0; e < from.length; e++) {
            from[e] = condition.raw(fromCondition[e]) != 0 ? fromX[e] : x.size() + fromY[e];
        }
        return KnownValue.pick(shape, from, x, y);
    }

    /** Coordinates of the elements that are not zero, [rank, count]. */
    static @Nullable KnownValue nonZero(KnownValue x) {
        // A float's -0.0 has bits but is zero: floats are left to the runtime.
        if (!x.isComplete() || x.dtype().isFloat() || x.shape().rank() == 0) {
            return null;
        }
        int[] hits = new int[x.size()];
        int count = 0;
        for (int e = 0; e < x.size(); e++) {
            if (x.raw(e) != 0) {
                hits[count++] = e;
            }
        }
        int rank = x.shape().rank();
        Shape shape = Shapes.small(rank, count).orElse(null);
        if (shape == null) {
            return null;
        }
        long[] strides = strides(x.shape());
        long[] coordinates = new long[rank * count];
        for (int i = 0; i < rank; i++) {
            for (int h = 0; h < count; h++) {
                coordinates[i * count + h] = hits[h] / strides[i] % x.shape().dim(i);
            }
        }
        return KnownValue.of(DType.I64, shape, coordinates);
    }
}
