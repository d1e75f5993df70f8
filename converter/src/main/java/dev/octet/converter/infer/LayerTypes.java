package dev.octet.converter.infer;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Normalisations, convolutions, pooling, recurrent layers, resizing. */
final class LayerTypes {
    static final Map<String, TypeRule> RULES = Map.ofEntries(
            Map.entry("BatchNormalization", LayerTypes::batchNormalization),
            Map.entry("LayerNormalization", LayerTypes::layerNormalization),
            Map.entry("Conv", t -> t.set(0, t.dtype(0), conv(t, 1))),
            Map.entry("ConvInteger", t -> t.set(0, DType.I32, conv(t, 1))),
            Map.entry("QLinearConv", t -> t.set(0, t.dtype(7), conv(t, 3))),
            Map.entry("ConvTranspose", LayerTypes::convTranspose),
            Map.entry("MaxPool", LayerTypes::pool),
            Map.entry("AveragePool", LayerTypes::pool),
            Map.entry("LpPool", LayerTypes::pool),
            Map.entry("GlobalAveragePool", LayerTypes::globalPool),
            Map.entry("GlobalMaxPool", LayerTypes::globalPool),
            Map.entry("GlobalLpPool", LayerTypes::globalPool),
            Map.entry("Resize", LayerTypes::resize),
            Map.entry("Upsample", LayerTypes::resize),
            Map.entry("RNN", LayerTypes::recurrent),
            Map.entry("GRU", LayerTypes::recurrent),
            Map.entry("LSTM", LayerTypes::recurrent));

    private LayerTypes() {}

    private static void batchNormalization(NodeTypes t) {
        ElementwiseTypes.same(t);
        for (int i = 1; i < t.node().outputs().size(); i++) {
            t.set(i, t.dtype(3), t.dims(3));
        }
    }

    private static void layerNormalization(NodeTypes t) {
        ElementwiseTypes.same(t);
        List<Dim> x = t.dims(0);
        if (x == null) {
            return;
        }
        int axis = t.axisAttribute(-1, x.size());
        List<Dim> statistics = new ArrayList<>(x.subList(0, axis));
        while (statistics.size() < x.size()) {
            statistics.add(Dim.of(1));
        }
        DType stash = DType.ofOnnxId((int) t.node().intAttribute("stash_type", DType.F32.onnxId()))
                .orElse(null);
        t.set(1, stash, statistics);
        t.set(2, stash, statistics);
    }

    // ---- windows
    // ------------------------------------------------------------------------------------------------------

    private static @Nullable List<Dim> conv(NodeTypes t, int weight) {
        List<Dim> x = t.dims(0);
        List<Dim> w = t.dims(weight);
        if (x == null || x.size() < 3) {
            return null;
        }
        if (w != null && w.size() != x.size()) {
            throw t.contradiction("a kernel of shape " + w + " for an input of rank " + x.size());
        }
        long[] kernel = t.ints("kernel_shape");
        if (kernel == null && w != null) {
            kernel = sizes(w.subList(2, w.size()));
        }
        List<Dim> dims = new ArrayList<>();
        dims.add(x.get(0));
        dims.add(w == null ? Dim.UNKNOWN : w.get(0));
        dims.addAll(windows(t, x.subList(2, x.size()), kernel));
        return dims;
    }

    private static long @Nullable [] sizes(List<Dim> dims) {
        long[] sizes = new long[dims.size()];
        for (int i = 0; i < sizes.length; i++) {
            Long size = dims.get(i).size();
            if (size == null) {
                return null;
            }
            sizes[i] = size;
        }
        return sizes;
    }

    private static void pool(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> dims = null;
        if (x != null && x.size() >= 3) {
            dims = new ArrayList<>(x.subList(0, 2));
            dims.addAll(windows(t, x.subList(2, x.size()), t.ints("kernel_shape")));
        }
        t.set(0, t.dtype(0), dims);
        t.set(1, DType.I64, dims); // MaxPool's indices
    }

    /** How often a window fits along each spatial axis: the formulas of Conv-11 and MaxPool-12. */
    private static List<Dim> windows(NodeTypes t, List<Dim> spatial, long @Nullable [] kernel) {
        int n = spatial.size();
        long[] strides = t.ints("strides");
        long[] dilations = t.ints("dilations");
        long[] pads = t.ints("pads");
        String autoPad = t.node().textAttribute("auto_pad", "NOTSET");
        boolean ceil = t.node().intAttribute("ceil_mode", 0) != 0;
        if (kernel == null
                || kernel.length != n
                || (strides != null && strides.length != n)
                || (dilations != null && dilations.length != n)
                || (pads != null && pads.length != 2 * n)) {
            return ShapeTypes.unknown(n);
        }
        List<Dim> dims = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            Long size = spatial.get(i).size();
            long stride = strides == null ? 1 : strides[i];
            long dilation = dilations == null ? 1 : dilations[i];
            if (size == null
                    || stride < 1
                    || dilation < 1
                    || kernel[i] < 1
                    || size > 1L << 40
                    || kernel[i] > 1L << 20) {
                dims.add(Dim.UNKNOWN);
                continue;
            }
            long window = (kernel[i] - 1) * Math.min(dilation, 1L << 20) + 1;
            long begin = pads == null || !autoPad.equals("NOTSET") ? 0 : pads[i];
            long end = pads == null || !autoPad.equals("NOTSET") ? 0 : pads[i + n];
            if (autoPad.startsWith("SAME")) {
                dims.add(Dim.of(Math.ceilDiv(size, stride)));
                continue;
            }
            long room = size + begin + end - window;
            if (room < 0) {
                dims.add(Dim.UNKNOWN);
                continue;
            }
            long count = (ceil ? Math.ceilDiv(room, stride) : room / stride) + 1;
            // A last window that would start in the padding after the input does not count.
            if (ceil && (count - 1) * stride >= size + begin) {
                count--;
            }
            dims.add(Dim.of(count));
        }
        return dims;
    }

    private static void convTranspose(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> w = t.dims(1);
        if (x == null || x.size() < 3) {
            t.set(0, t.dtype(0), null);
            return;
        }
        long group = t.node().intAttribute("group", 1);
        List<Dim> dims = new ArrayList<>();
        dims.add(x.get(0));
        dims.add(w == null || w.size() < 2 || group < 1 ? Dim.UNKNOWN : ShapeTypes.scaled(w.get(1), group));
        dims.addAll(transposedWindows(t, x, w));
        t.set(0, t.dtype(0), dims);
    }

    private static List<Dim> transposedWindows(NodeTypes t, List<Dim> x, @Nullable List<Dim> w) {
        int n = x.size() - 2;
        long[] kernel = t.ints("kernel_shape");
        if (kernel == null && w != null && w.size() == x.size()) {
            kernel = sizes(w.subList(2, w.size()));
        }
        long[] given = t.ints("output_shape");
        if (given != null && given.length == n) {
            List<Dim> dims = new ArrayList<>();
            for (long s : given) {
                dims.add(s < 0 ? Dim.UNKNOWN : Dim.of(s));
            }
            return dims;
        }
        long[] strides = t.ints("strides");
        long[] dilations = t.ints("dilations");
        long[] pads = t.ints("pads");
        long[] extra = t.ints("output_padding");
        boolean same = !t.node().textAttribute("auto_pad", "NOTSET").equals("NOTSET");
        List<Dim> dims = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            Long size = x.get(i + 2).size();
            boolean odd = same
                    || kernel == null
                    || kernel.length != n
                    || (strides != null && strides.length != n)
                    || (dilations != null && dilations.length != n)
                    || (pads != null && pads.length != 2 * n)
                    || (extra != null && extra.length != n);
            if (odd || kernel == null || size == null || size > 1L << 40) {
                dims.add(Dim.UNKNOWN);
                continue;
            }
            long length = (strides == null ? 1 : strides[i]) * (size - 1)
                    + (extra == null ? 0 : extra[i])
                    + (kernel[i] - 1) * (dilations == null ? 1 : dilations[i])
                    + 1
                    - (pads == null ? 0 : pads[i] + pads[i + n]);
            dims.add(length < 0 ? Dim.UNKNOWN : Dim.of(length));
        }
        return dims;
    }

    private static void globalPool(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> dims = null;
        if (x != null && x.size() >= 2) {
            dims = new ArrayList<>(x.subList(0, 2));
            while (dims.size() < x.size()) {
                dims.add(Dim.of(1));
            }
        }
        t.set(0, t.dtype(0), dims);
    }

    /** Output dimensions come from {@code sizes}. With {@code scales} only the rank is known, because float values are not followed. */
    private static void resize(NodeTypes t) {
        List<Dim> x = t.dims(0);
        if (x == null) {
            t.set(0, t.dtype(0), null);
            return;
        }
        long[] sizes = t.integers(3);
        boolean plain =
                t.node().textAttribute("keep_aspect_ratio_policy", "stretch").equals("stretch");
        long[] axes = t.ints("axes");
        if (sizes == null || !plain || axes != null || sizes.length != x.size()) {
            t.set(0, t.dtype(0), ShapeTypes.unknown(x.size()));
            return;
        }
        List<Dim> dims = new ArrayList<>();
        for (long s : sizes) {
            dims.add(s < 0 ? Dim.UNKNOWN : Dim.of(s));
        }
        t.set(0, t.dtype(0), dims);
    }

    /** X is [seq, batch, input] (layout 0) or [batch, seq, input]; R is [directions, gates*hidden, hidden]. */
    private static void recurrent(NodeTypes t) {
        List<Dim> x = t.dims(0);
        List<Dim> r = t.dims(2);
        boolean batchFirst = t.node().intAttribute("layout", 0) != 0;
        Dim directions = Dim.of(t.node().textAttribute("direction", "forward").equals("bidirectional") ? 2 : 1);
        Dim hidden = r == null || r.size() != 3 ? Dim.UNKNOWN : r.get(2);
        Dim seq = x == null || x.size() != 3 ? Dim.UNKNOWN : x.get(batchFirst ? 1 : 0);
        Dim batch = x == null || x.size() != 3 ? Dim.UNKNOWN : x.get(batchFirst ? 0 : 1);
        t.set(
                0,
                t.dtype(0),
                batchFirst ? List.of(batch, seq, directions, hidden) : List.of(seq, directions, batch, hidden));
        List<Dim> last = batchFirst ? List.of(batch, directions, hidden) : List.of(directions, batch, hidden);
        t.set(1, t.dtype(0), last);
        t.set(2, t.dtype(0), last);
    }
}
