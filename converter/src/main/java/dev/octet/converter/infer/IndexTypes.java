package dev.octet.converter.infer;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Operators that look elements up or find them. */
final class IndexTypes {
    static final Map<String, TypeRule> RULES = Map.of(
            "Gather", IndexTypes::gather,
            "GatherElements", t -> t.set(0, t.dtype(0), t.dims(1)),
            "GatherND", IndexTypes::gatherNd,
            "OneHot", IndexTypes::oneHot,
            "NonZero", IndexTypes::nonZero,
            "TopK", IndexTypes::topK,
            "ArgMax", IndexTypes::arg,
            "ArgMin", IndexTypes::arg);

    private IndexTypes() {}

    private static void gather(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> ids = t.dims(1);
        if (x == null || ids == null) {
            t.set(0, t.dtype(0), null);
            return;
        }
        int axis = t.axisAttribute(0, x.size());
        List<Dim> dims = new ArrayList<>(x.subList(0, axis));
        dims.addAll(ids);
        dims.addAll(x.subList(axis + 1, x.size()));
        t.set(0, t.dtype(0), dims);
    }

    private static void gatherNd(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> ids = t.dims(1);
        long batch = t.node().intAttribute("batch_dims", 0);
        Long depth = ids == null || ids.isEmpty() ? null : ids.getLast().size();
        if (x == null || ids == null || depth == null || batch < 0 || batch + depth > x.size()) {
            t.set(0, t.dtype(0), null);
            return;
        }
        List<Dim> dims = new ArrayList<>(ids.subList(0, ids.size() - 1));
        dims.addAll(x.subList((int) (batch + depth), x.size()));
        t.set(0, t.dtype(0), dims);
    }

    private static void oneHot(NodeTypes t) {
        List<Dim> ids = t.dims(0);
        if (ids == null) {
            t.set(0, t.dtype(2), null);
            return;
        }
        int axis = t.axisAttribute(-1, ids.size() + 1);
        long[] depth = t.integers(1);
        List<Dim> dims = new ArrayList<>(ids);
        dims.add(axis, depth != null && depth.length == 1 && depth[0] >= 0 ? Dim.of(depth[0]) : Dim.UNKNOWN);
        t.set(0, t.dtype(2), dims);
    }

    private static void nonZero(NodeTypes t) {
        List<Dim> x = t.dims(0);
        // A scalar counts as one of rank 1 or 0 depending on the runtime.
        t.set(0, DType.I64, List.of(x == null || x.isEmpty() ? Dim.UNKNOWN : Dim.of(x.size()), Dim.UNKNOWN));
    }

    private static void topK(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> dims = null;
        if (x != null) {
            long[] k =
                    t.node().hasInput(1) ? t.integers(1) : new long[] {t.node().intAttribute("k", -1)};
            dims = new ArrayList<>(x);
            dims.set(
                    t.axisAttribute(-1, x.size()),
                    k != null && k.length == 1 && k[0] >= 0 ? Dim.of(k[0]) : Dim.UNKNOWN);
        }
        t.set(0, t.dtype(0), dims);
        t.set(1, DType.I64, dims);
    }

    private static void arg(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> dims = null;
        if (x != null) {
            int axis = t.axisAttribute(0, x.size());
            dims = new ArrayList<>(x);
            if (t.node().intAttribute("keepdims", 1) != 0) {
                dims.set(axis, Dim.of(1));
            } else {
                dims.remove(axis);
            }
        }
        t.set(0, DType.I64, dims);
    }
}
