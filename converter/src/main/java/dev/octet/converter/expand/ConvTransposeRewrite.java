package dev.octet.converter.expand;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/**
 * A transposed convolution as a convolution: zeros between the elements of x for strides, zeros around it, and the kernel flipped
 * (Dumoulin and Visin, A guide to convolution arithmetic for deep learning, section 4).
 */
final class ConvTransposeRewrite {
    private final Rewriting r;
    private final long[] x;
    private final long[] w;
    private final int axes;
    private final long groups;
    private final List<Long> strides;
    private final List<Long> dilations;
    private final List<Long> pads;
    private final long[] result;

    private ConvTransposeRewrite(Rewriting r, long[] x, long[] w, long[] result) {
        this.r = r;
        this.x = x;
        this.w = w;
        this.result = result;
        Node n = r.node();
        axes = x.length - 2;
        groups = n.intAttribute("group", 1);
        strides = n.intsAttribute("strides").orElse(repeated(1));
        dilations = n.intsAttribute("dilations").orElse(repeated(1));
        pads = n.intsAttribute("pads").orElse(repeated(2));
    }

    /** Ones for each axis, or zeros for each end of each axis. */
    private List<Long> repeated(int ends) {
        return LongStream.generate(() -> ends == 1 ? 1 : 0)
                .limit((long) axes * ends)
                .boxed()
                .toList();
    }

    static boolean write(Rewriting r) {
        Node n = r.node();
        long @Nullable [] x = r.shape(0);
        long @Nullable [] w = r.shape(1);
        long @Nullable [] result = r.resultShape();
        // with output_shape or auto_pad the sizes decide how much is cut, by rules of their own
        boolean plain = n.attribute("output_shape").isEmpty()
                && n.textAttribute("auto_pad", "NOTSET").equals("NOTSET");
        if (x == null || w == null || result == null || x.length < 3 || !plain || !r.isFloat()) {
            return false;
        }
        new ConvTransposeRewrite(r, x, w, result).write();
        return true;
    }

    private void write() {
        List<String> inputs = new ArrayList<>(List.of(padded(spread()), flipped()));
        if (r.node().hasInput(2)) {
            inputs.add(r.node().input(2));
        }
        r.e().last(
                        "Conv",
                        inputs,
                        Attribute.of("group", groups),
                        Attribute.of("dilations", dilations),
                        Attribute.of("strides", repeated(1)));
    }

    private long extent(int axis) {
        return (x[axis + 2] - 1) * strides.get(axis) + 1;
    }

    /** x with strides-1 zeros between neighbours. */
    private String spread() {
        if (strides.stream().allMatch(s -> s == 1)) {
            return r.x();
        }
        List<Long> apart = new ArrayList<>(List.of(x[0], x[1]));
        List<Long> wide = new ArrayList<>(List.of(x[0], x[1]));
        List<Long> zeros = new ArrayList<>(List.of(0L, 0L));
        for (int i = 0; i < axes; i++) {
            apart.addAll(List.of(x[i + 2], 1L));
            wide.add(x[i + 2] * strides.get(i));
            zeros.addAll(List.of(0L, strides.get(i) - 1));
        }
        List<Long> both = new ArrayList<>(
                LongStream.generate(() -> 0).limit(zeros.size()).boxed().toList());
        both.addAll(zeros);
        String padded = r.node("Pad", r.reshape(r.x(), array(apart)), r.e().numbers(array(both)));
        String full = r.reshape(padded, array(wide));
        long[] starts = new long[axes];
        long[] ends = new long[axes];
        long[] which = new long[axes];
        for (int i = 0; i < axes; i++) {
            ends[i] = extent(i);
            which[i] = i + 2L;
        }
        return r.node("Slice", full, r.e().numbers(starts), r.e().numbers(ends), r.e().numbers(which));
    }

    /** With as many zeros around it, or so much cut off, that a convolution gives the result's sizes. */
    private String padded(String value) {
        long[] around = new long[2 * x.length];
        for (int i = 0; i < axes; i++) {
            long reach = dilations.get(i) * (w[i + 2] - 1);
            around[i + 2] = reach - pads.get(i);
            around[x.length + i + 2] = result[i + 2] + reach - extent(i) - around[i + 2];
        }
        return Arrays.stream(around).allMatch(n -> n == 0) ? value : r.node("Pad", value, r.e().numbers(around));
    }

    /** w [C, M/groups, ..] as [M, C/groups, ..], the spatial axes reversed. */
    private String flipped() {
        List<Long> split = new ArrayList<>(List.of(groups, x[1] / groups, w[1]));
        List<Long> joined = new ArrayList<>(List.of(groups * w[1], x[1] / groups));
        List<Long> perm = new ArrayList<>(List.of(0L, 2L, 1L));
        long[] starts = new long[axes];
        long[] ends = new long[axes];
        long[] which = new long[axes];
        for (int i = 0; i < axes; i++) {
            split.add(w[i + 2]);
            joined.add(w[i + 2]);
            perm.add(i + 3L);
            starts[i] = -1;
            ends[i] = Long.MIN_VALUE;
            which[i] = i + 2L;
        }
        String permuted = r.reshape(r.transpose(r.reshape(r.node().input(1), array(split)), perm), array(joined));
        String back = r.e().numbers(starts); // -1 is the last element and the step towards the first
        return r.node("Slice", permuted, back, r.e().numbers(ends), r.e().numbers(which), back);
    }

    private static long[] array(List<Long> sizes) {
        return sizes.stream().mapToLong(Long::longValue).toArray();
    }
}
