package dev.octet.converter.infer;

import dev.octet.formats.graph.Dim;
import java.util.ArrayList;
import java.util.List;

/** Operators that reduce axes to one number each. */
final class ReductionTypes {
    private ReductionTypes() {}

    /** Input 0 without the axes of {@link NodeTypes#axes}, or with 1 in their place. */
    static void reduce(NodeTypes t) {
        List<Dim> x = t.dims(0);
        long[] axes = t.axes();
        boolean keep = t.node().intAttribute("keepdims", 1) != 0;
        if (x == null || axes == null) {
            t.set(0, t.dtype(0), x == null || !keep ? null : ShapeTypes.unknown(x.size()));
            return;
        }
        if (axes.length == 0 && t.node().intAttribute("noop_with_empty_axes", 0) != 0) {
            t.set(0, t.dtype(0), x);
            return;
        }
        boolean[] reduced = new boolean[x.size()];
        for (long axis : axes) {
            reduced[t.axis(axis, x.size())] = true;
        }
        List<Dim> dims = new ArrayList<>();
        for (int i = 0; i < x.size(); i++) {
            if (axes.length > 0 && !reduced[i]) {
                dims.add(x.get(i));
            } else if (keep) {
                dims.add(Dim.of(1));
            }
        }
        t.set(0, t.dtype(0), dims);
    }
}
