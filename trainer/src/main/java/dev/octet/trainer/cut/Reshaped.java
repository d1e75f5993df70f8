package dev.octet.trainer.cut;

import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What becomes of a cut when a tensor gets another shape. */
final class Reshaped {
    private Reshaped() {}

    /**
     * The cut of the same elements in another shape: of an axis that splits, the foremost of its parts whose elements ranks share; of axes that are joined, segments for what lies before the cut one.
     *
     * @return null where ranks would have no ranges of one axis
     */
    static @Nullable Cut cut(Cut cut, Shape from, Shape to) {
        // the smallest groups of axes with equally many elements
        int i = 0;
        int j = 0;
        while (i < from.rank()) {
            int firstI = i;
            int firstJ = j;
            long left = from.dim(i++);
            long right = j < to.rank() ? to.dim(j++) : 1;
            while (left != right) {
                if (left < right) {
                    if (i >= from.rank()) {
                        return null;
                    }
                    left *= from.dim(i++);
                } else {
                    if (j >= to.rank()) {
                        return null;
                    }
                    right *= to.dim(j++);
                }
            }
            if (cut.axis() >= firstI && cut.axis() < i) {
                return inGroup(cut, from, to, new int[] {firstI, i, firstJ, j});
            }
        }
        return null;
    }

    /** @param ends of the group's axes in both shapes */
    private static @Nullable Cut inGroup(Cut cut, Shape from, Shape to, int[] ends) {
        // the group as one axis: segments of each element before the cut axis
        long before = 1;
        for (int a = ends[0]; a < cut.axis(); a++) {
            before *= from.dim(a);
        }
        long inner = 1;
        for (int a = cut.axis() + 1; a < ends[1]; a++) {
            inner *= from.dim(a);
        }
        List<Long> joined = new ArrayList<>();
        for (long b = 0; b < before; b++) {
            for (long segment : cut.segments()) {
                joined.add(segment * inner);
            }
        }
        // apart again: the axis within which segments lie
        long outer = 1;
        for (int a = ends[2]; a < ends[3]; a++) {
            long behind = 1;
            for (int b = a + 1; b < ends[3]; b++) {
                behind *= to.dim(b);
            }
            List<Long> own = within(joined, outer, to.dim(a), behind);
            if (own != null) {
                return new Cut(a, own);
            }
            outer *= to.dim(a);
        }
        return null;
    }

    /** Segments of an axis, if those of the joined one repeat for all that lies before it, and consist of whole elements of it. */
    private static @Nullable List<Long> within(List<Long> joined, long outer, long size, long behind) {
        if (size <= 1 || joined.size() % outer != 0) {
            return null;
        }
        int each = (int) (joined.size() / outer);
        List<Long> own = joined.subList(0, each);
        for (int o = 0; o < outer; o++) {
            if (!joined.subList(o * each, (o + 1) * each).equals(own)) {
                return null;
            }
        }
        if (own.stream().anyMatch(s -> s % behind != 0)
                || own.stream().mapToLong(s -> s / behind).sum() != size) {
            return null;
        }
        // an axis of equal segments of one element each is the segments' own, not what is cut
        return own.stream().allMatch(s -> s == behind)
                ? null
                : own.stream().map(s -> s / behind).toList();
    }
}
