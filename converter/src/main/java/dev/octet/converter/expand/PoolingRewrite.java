package dev.octet.converter.expand;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * AveragePool and MaxPool whose output is rounded up ({@code ceil_mode}). In opset 22, windows that would start in the padding at the end
 * are left out; the sizes of older opsets count them. Such a node is written without {@code ceil_mode}, and with as much padding at the end
 * as the remaining windows need.
 *
 * <p>Source: ONNX Operators.md, AveragePool-19 and -22, MaxPool-12 and -22.
 */
final class PoolingRewrite {
    private static final int SPATIAL = 2;

    /**
     * One axis.
     *
     * @param windows that opset 22 has
     * @param counted windows that older opsets count
     * @param fitting windows that fit into the padded input
     * @param padEnd so much that {@code windows} fit
     */
    private record Axis(long windows, long counted, long fitting, long padEnd) {
        static Axis of(long size, long kernel, long stride, long dilation, long padBegin, long padEnd) {
            long reach = dilation * (kernel - 1) + 1;
            long room = size + padBegin + padEnd - reach;
            long counted = Math.ceilDiv(room, stride) + 1;
            long windows = (counted - 1) * stride >= size + padBegin ? counted - 1 : counted;
            return new Axis(
                    windows,
                    counted,
                    Math.floorDiv(room, stride) + 1,
                    Math.max(padEnd, (windows - 1) * stride + reach - size - padBegin));
        }
    }

    private PoolingRewrite() {}

    /** Whether older opsets count windows of this node that opset 22 leaves out; sizes that are not known do not count. */
    static boolean countsMoreBefore(Node n, Analysis analysis) {
        List<Axis> axes = axes(n, analysis);
        return axes != null && axes.stream().anyMatch(a -> a.counted() != a.windows());
    }

    /** Writes the node for an older opset; false where that cannot be done. */
    static boolean write(Rewriting r) {
        Node n = r.node();
        List<Axis> axes = axes(n, r.analysis());
        // BF16 came with opset 22 as well
        if (axes == null || r.dtype() == DType.BF16) {
            return false;
        }
        boolean fits = axes.stream().allMatch(a -> a.windows() == a.fitting());
        if (!fits && n.intAttribute("count_include_pad", 0) != 0) {
            return false; // the mean would count the padding that is added
        }
        Map<String, Attribute> attributes = new LinkedHashMap<>(n.attributes());
        attributes.remove("ceil_mode");
        if (!fits) {
            List<Long> pads = new ArrayList<>(numbers(n, "pads", 2 * axes.size(), 0));
            for (int i = 0; i < axes.size(); i++) {
                pads.set(axes.size() + i, axes.get(i).padEnd());
            }
            attributes.put("pads", Attribute.of("pads", pads));
        }
        for (int i = 1; i < n.outputs().size(); i++) {
            if (!n.output(i).isEmpty()) {
                return false; // indices would need another node
            }
        }
        r.e().last(n.opType(), n.inputs(), attributes.values().toArray(Attribute[]::new));
        return true;
    }

    /** Null where the node has nothing of this, or a size is not known. */
    private static @Nullable List<Axis> axes(Node n, Analysis analysis) {
        boolean pools = n.is("AveragePool") || n.is("MaxPool");
        if (!pools
                || n.intAttribute("ceil_mode", 0) == 0
                || !n.textAttribute("auto_pad", "NOTSET").equals("NOTSET")) {
            return null;
        }
        List<Dim> dims = analysis.dims(n.input(0));
        List<Long> kernel = n.intsAttribute("kernel_shape").orElse(List.of());
        if (dims == null || kernel.isEmpty() || dims.size() != SPATIAL + kernel.size()) {
            return null;
        }
        int count = kernel.size();
        List<Long> strides = numbers(n, "strides", count, 1);
        List<Long> dilations = numbers(n, "dilations", count, 1);
        List<Long> pads = numbers(n, "pads", 2 * count, 0);
        List<Axis> axes = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Long size = dims.get(SPATIAL + i).size();
            if (size == null || strides.get(i) < 1) {
                return null;
            }
            axes.add(Axis.of(size, kernel.get(i), strides.get(i), dilations.get(i), pads.get(i), pads.get(count + i)));
        }
        return axes;
    }

    private static List<Long> numbers(Node n, String attribute, int count, long fallback) {
        List<Long> given = n.intsAttribute(attribute).orElse(List.of());
        return given.size() == count ? given : Collections.nCopies(count, fallback);
    }
}
