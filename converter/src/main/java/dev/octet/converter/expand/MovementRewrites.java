package dev.octet.converter.expand;

import dev.octet.converter.expand.TrainingExpansions.Rewrite;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/** Operators that move or repeat elements. */
final class MovementRewrites {
    static final Map<String, Rewrite> ALL = Map.of(
            "DepthToSpace", MovementRewrites::depthToSpace,
            "OneHot", MovementRewrites::oneHot,
            "Resize", MovementRewrites::resize,
            "SpaceToDepth", MovementRewrites::spaceToDepth);

    private static final Set<String> NEAREST_AT_WHOLE_SCALES =
            Set.of("asymmetric/floor", "half_pixel/round_prefer_floor");

    private MovementRewrites() {}

    /** [N, C, H, W] to [N, C/b², H·b, W·b]; DCR takes the offset in the block from the first part of the channel, CRD from the last. */
    private static boolean depthToSpace(Rewriting r) {
        long @Nullable [] s = r.shape(0);
        long b = r.node().intAttribute("blocksize", 0);
        if (s == null || s.length != 4 || b < 1) {
            return false;
        }
        boolean columnRow = r.node().textAttribute("mode", "DCR").equals("CRD");
        long c = s[1] / (b * b);
        String blocks =
                columnRow ? r.reshape(r.x(), s[0], c, b, b, s[2], s[3]) : r.reshape(r.x(), s[0], b, b, c, s[2], s[3]);
        List<Long> perm = columnRow ? List.of(0L, 1L, 4L, 2L, 5L, 3L) : List.of(0L, 3L, 4L, 1L, 5L, 2L);
        r.lastReshape(r.transpose(blocks, perm), s[0], c, s[2] * b, s[3] * b);
        return true;
    }

    private static boolean spaceToDepth(Rewriting r) {
        long @Nullable [] s = r.shape(0);
        long b = r.node().intAttribute("blocksize", 0);
        if (s == null || s.length != 4 || b < 1) {
            return false;
        }
        String blocks = r.reshape(r.x(), s[0], s[1], s[2] / b, b, s[3] / b, b);
        String permuted = r.transpose(blocks, List.of(0L, 3L, 5L, 1L, 2L, 4L));
        r.lastReshape(permuted, s[0], s[1] * b * b, s[2] / b, s[3] / b);
        return true;
    }

    /** Values are [off, on]; an index below zero counts from the end, one outside is off everywhere. */
    private static boolean oneHot(Rewriting r) {
        Node n = r.node();
        long @Nullable [] result = r.resultShape();
        DType indices = r.dtype();
        if (result == null || (indices != DType.I64 && indices != DType.I32)) {
            return false;
        }
        long given = n.intAttribute("axis", -1);
        int axis = (int) (given < 0 ? given + result.length : given);
        long depth = result[axis];
        String negative = r.node("Less", r.x(), r.number(0));
        String wrapped = r.node("Where", negative, r.node("Add", r.x(), r.e().number((double) depth, indices)), r.x());
        String expanded = r.e().node("Unsqueeze", List.of(wrapped, r.e().numbers(axis)));
        long[] along = LongStream.generate(() -> 1).limit(result.length).toArray();
        along[axis] = depth;
        String classes = r.e().numbers(LongStream.range(0, depth).toArray());
        String typed = r.e().cast(classes, DType.I64, indices);
        String hit = r.node("Equal", expanded, r.reshape(typed, along));
        String off = r.e().node("Gather", List.of(n.input(2), r.e().number(0, DType.I64)), Attribute.of("axis", 0L));
        String on = r.e().node("Gather", List.of(n.input(2), r.e().number(1, DType.I64)), Attribute.of("axis", 0L));
        r.last("Where", hit, on, off);
        return true;
    }

    /** To the nearest, by whole factors: every element is repeated. */
    private static boolean resize(Rewriting r) {
        Node n = r.node();
        long @Nullable [] from = r.shape(0);
        long @Nullable [] to = r.resultShape();
        String how = n.textAttribute("coordinate_transformation_mode", "half_pixel")
                + "/"
                + n.textAttribute("nearest_mode", "round_prefer_floor");
        boolean nearest = n.textAttribute("mode", "nearest").equals("nearest") && NEAREST_AT_WHOLE_SCALES.contains(how);
        if (!nearest || from == null || to == null || n.attribute("axes").isPresent()) {
            return false;
        }
        List<Long> apart = new ArrayList<>();
        List<Long> repeated = new ArrayList<>();
        for (int i = 0; i < from.length; i++) {
            if (from[i] == 0 || to[i] % from[i] != 0) {
                return false;
            }
            apart.addAll(List.of(from[i], 1L));
            repeated.addAll(List.of(from[i], to[i] / from[i]));
        }
        String wide = r.node("Expand", r.reshape(r.x(), array(apart)), r.e().numbers(array(repeated)));
        r.lastReshape(wide, to);
        return true;
    }

    private static long[] array(List<Long> sizes) {
        return sizes.stream().mapToLong(Long::longValue).toArray();
    }
}
