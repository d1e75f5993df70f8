package dev.octet.converter.expand;

import dev.octet.converter.expand.TrainingExpansions.Rewrite;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Normalisations over other axes than the last: channels in groups become rows of a LayerNormalization. */
final class NormalisationRewrites {
    /** Added to the deviation by ONNX's definition of MeanVarianceNormalization. */
    private static final double MVN_EPSILON = 1e-9;

    /** Keeps a row of zeros at zero; smaller than every nonzero norm. */
    private static final double SMALLEST_NORM = 0x1p-126;

    static final Map<String, Rewrite> ALL = Map.of(
            "GroupNormalization",
            r -> groups(r, r.node().intAttribute("num_groups", 0)),
            "InstanceNormalization",
            r -> groups(r, channels(r)),
            "LpNormalization",
            NormalisationRewrites::lp,
            "MeanVarianceNormalization",
            NormalisationRewrites::meanVariance);

    private NormalisationRewrites() {}

    private static long channels(Rewriting r) {
        long @Nullable [] shape = r.shape(0);
        return shape == null || shape.length < 2 ? 0 : shape[1];
    }

    /** x [N, C, ..] as rows [N, groups, the rest]; scale and shift are one for each channel. */
    private static boolean groups(Rewriting r, long groups) {
        long @Nullable [] shape = r.shape(0);
        DType dtype = r.dtype();
        if (shape == null
                || dtype == null
                || !r.isFloat()
                || shape.length < 2
                || groups < 1
                || shape[1] % groups != 0) {
            return false;
        }
        long row = shape[1] / groups;
        for (int i = 2; i < shape.length; i++) {
            row *= shape[i];
        }
        long[] perChannel = new long[shape.length - 1];
        Arrays.fill(perChannel, 1);
        perChannel[0] = shape[1];
        String rows = r.reshape(r.x(), shape[0], groups, row);
        String normal = r.e().node(
                        "LayerNormalization",
                        List.of(rows, r.e().ones(row, dtype)),
                        Attribute.of("axis", -1L),
                        Attribute.of("epsilon", r.node().floatAttribute("epsilon", 1e-5f)));
        String scaled =
                r.node("Mul", r.reshape(normal, shape), r.reshape(r.node().input(1), perChannel));
        r.last("Add", scaled, r.reshape(r.node().input(2), perChannel));
        return true;
    }

    private static boolean lp(Rewriting r) {
        Node n = r.node();
        long p = n.intAttribute("p", 2);
        if (!r.isFloat() || (p != 1 && p != 2)) {
            return false;
        }
        String axis = r.e().numbers(n.intAttribute("axis", -1));
        String norm = r.node("ReduceL" + p, r.x(), axis);
        r.last("Div", r.x(), r.node("Max", norm, r.number(SMALLEST_NORM)));
        return true;
    }

    private static boolean meanVariance(Rewriting r) {
        if (!r.isFloat()) {
            return false;
        }
        List<Long> axes = r.node().intsAttribute("axes").orElse(List.of(0L, 2L, 3L));
        String over = r.e().numbers(axes.stream().mapToLong(Long::longValue).toArray());
        String centred = r.node("Sub", r.x(), r.node("ReduceMean", r.x(), over));
        String variance = r.node("ReduceMean", r.node("Mul", centred, centred), over);
        r.last("Div", centred, r.node("Add", r.node("Sqrt", variance), r.number(MVN_EPSILON)));
        return true;
    }
}
