package dev.octet.converter.expand;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.List;
import java.util.stream.LongStream;

/** RMSNormalization of opset 23, by its definition in ONNX: x / sqrt(mean(x²) + epsilon) in {@code stash_type}, times scale. */
final class RootMeanSquareRewrite {
    private RootMeanSquareRewrite() {}

    static void write(Rewriting r) {
        Node n = r.node();
        DType x = r.requireFloat();
        DType scale = r.analysis().dtype(n.input(1));
        DType y = scale == null ? x : scale;
        DType stash = DType.ofOnnxId((int) n.intAttribute("stash_type", DType.F32.onnxId()))
                .orElseThrow(() -> r.refused("has an unknown stash_type"));
        Expansion e = r.e();
        String wide = e.cast(r.x(), x, stash);
        String mean = r.e().node(
                        "ReduceMean",
                        List.of(r.node("Mul", wide, wide), e.numbers(axes(r))),
                        Attribute.of("keepdims", 1L));
        String sum = r.node("Add", mean, e.number(n.floatAttribute("epsilon", 1e-5f), stash));
        String normalised = r.node("Div", wide, r.node("Sqrt", sum));
        r.last("Mul", e.cast(normalised, stash, y), n.input(1));
    }

    /** From the node's axis to the last one, counted from the end. */
    private static long[] axes(Rewriting r) {
        long axis = r.node().intAttribute("axis", -1);
        if (axis >= 0) {
            List<Dim> dims = r.analysis().dims(r.x());
            if (dims == null || axis >= dims.size()) {
                throw r.refused("has axis " + axis + " on an input of unknown rank");
            }
            axis -= dims.size();
        }
        return LongStream.range(axis, 0).toArray();
    }
}
