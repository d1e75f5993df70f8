package dev.octet.converter.infer;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** ONNX's multidirectional broadcasting (Broadcasting.md), on symbolic and on concrete shapes. */
final class BroadcastShape {
    private BroadcastShape() {}

    /** The dimension two broadcast dimensions make; null when they surely do not fit. */
    static @Nullable Dim join(Dim a, Dim b) {
        if (a.sameAs(b)) {
            return a;
        }
        if (a.size() != null && a.size() == 1) {
            return b;
        }
        if (b.size() != null && b.size() == 1) {
            return a;
        }
        if (a.size() != null && b.size() != null) {
            return null;
        }
        // A number other than 1 wins over what is not known: that must be 1 or the same number.
        return a.size() != null ? a : b.size() != null ? b : Dim.UNKNOWN;
    }

    /** The shape that two shapes make; null when they surely do not fit. */
    static @Nullable List<Dim> join(List<Dim> a, List<Dim> b) {
        int rank = Math.max(a.size(), b.size());
        List<Dim> joined = new ArrayList<>(rank);
        for (int i = 0; i < rank; i++) {
            int ia = i - (rank - a.size());
            int ib = i - (rank - b.size());
            Dim d = ia < 0 ? b.get(ib) : ib < 0 ? a.get(ia) : join(a.get(ia), b.get(ib));
            if (d == null) {
                return null;
            }
            joined.add(d);
        }
        return joined;
    }

    /** The shape that concrete shapes make; empty when they do not fit or have more than {@link KnownValue#MAX_ELEMENTS}. */
    static Optional<Shape> join(Shape a, Shape b) {
        int rank = Math.max(a.rank(), b.rank());
        long[] dims = new long[rank];
        for (int i = 0; i < rank; i++) {
            int ia = i - (rank - a.rank());
            int ib = i - (rank - b.rank());
            long da = ia < 0 ? 1 : a.dim(ia);
            long db = ib < 0 ? 1 : b.dim(ib);
            if (da != db && da != 1 && db != 1) {
                return Optional.empty();
            }
            dims[i] = da == 1 ? db : da;
        }
        return Shapes.small(dims);
    }

    /** For each element of {@code to}, the index of the element of {@code from} that broadcasting puts there. */
    static int[] indices(Shape from, Shape to) {
        int count = Math.toIntExact(to.elementCount());
        int[] indices = new int[count];
        long[] strides = new long[to.rank()];
        long stride = 1;
        for (int i = from.rank() - 1; i >= 0; i--) {
            strides[i + to.rank() - from.rank()] = from.dim(i) == 1 ? 0 : stride;
            stride *= from.dim(i);
        }
        for (int e = 0; e < count; e++) {
            long rest = e;
            long at = 0;
            for (int i = to.rank() - 1; i >= 0; i--) {
                at += rest % to.dim(i) * strides[i];
                rest /= to.dim(i);
            }
            indices[e] = (int) at;
        }
        return indices;
    }
}
