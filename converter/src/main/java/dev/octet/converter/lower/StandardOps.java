package dev.octet.converter.lower;

import dev.octet.converter.expand.Expansion;
import dev.octet.converter.pass.Pass;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Turns the operators of {@link CanonicalOps} back into ONNX's own at the model's opset, so that a model of which only a part was
 * rewritten can be written and run.
 *
 * <table>
 * <caption>What becomes what</caption>
 * <tr><td>Linear</td><td>MatMul and Add; Gemm where w is [out, in] and x is known to be 2-D; MatMul with Transpose(w) otherwise</td></tr>
 * <tr><td>LayerNormalization</td><td>the operator from opset 17 on; before, the nine nodes that TorchScript wrote</td></tr>
 * <tr><td>RMSNormalization</td><td>the operator from opset 23 on; before, in F32: Mul, ReduceMean, Add, Sqrt, Div, then Mul</td></tr>
 * <tr><td>Gelu</td><td>the operator from opset 20 on; before, by Erf or Tanh</td></tr>
 * </table>
 *
 * <p>Nodes are called {@code <canonical name>/<operator>}, from which pattern rules find the same canonical name again.
 */
public final class StandardOps implements Pass {
    private static final int LAYER_NORM_OPSET = 17;
    private static final int GELU_OPSET = 20;
    private static final int RMS_NORM_OPSET = 23;
    /** Nodes that are gone back through in search of a type. */
    private static final int MAX_STEPS = 16;

    @Override
    public String name() {
        return "standard-ops";
    }

    /**
     * {@inheritDoc}
     *
     * @throws MalformedModelException when a canonical node lacks an input or output
     */
    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        GraphEdit edit = GraphEdit.of(model.graph());
        int lowered = 0;
        for (Node n : edit.nodes()) {
            if (!n.domain().equals(Node.OCTET_DOMAIN)) {
                continue;
            }
            lowered++;
            switch (n.opType()) {
                case CanonicalOps.LINEAR -> linear(edit, checked(n, 2));
                case CanonicalOps.LAYER_NORM -> layerNorm(edit, checked(n, 2), model.opset());
                case CanonicalOps.RMS_NORM -> rmsNorm(edit, checked(n, 2), model.opset());
                case CanonicalOps.GELU -> gelu(edit, checked(n, 1), model.opset());
                default -> lowered--; // an FP8 operator: the target's own lowering knows it
            }
        }
        if (lowered == 0) {
            return model;
        }
        log.note(name(), "", lowered + " nodes back to standard operators of opset " + model.opset());
        return withoutUnusedDomain(model.withGraph(edit.build()));
    }

    private static Node checked(Node n, int inputs) {
        for (int i = 0; i < inputs; i++) {
            if (!n.hasInput(i)) {
                throw malformed(n, "lacks input " + i);
            }
        }
        if (n.outputs().size() != 1 || n.output().isEmpty()) {
            throw malformed(n, "does not have one output");
        }
        return n;
    }

    private static MalformedModelException malformed(Node n, String problem) {
        return new MalformedModelException(
                n.domain() + "." + n.opType() + " " + problem,
                "node '" + n.id() + "'",
                "import the original model again; only Octet writes this domain");
    }

    private static GraphModel withoutUnusedDomain(GraphModel model) {
        if (model.graph().nodes().stream().anyMatch(n -> n.domain().equals(Node.OCTET_DOMAIN))) {
            return model;
        }
        Map<String, Long> opsets = new LinkedHashMap<>(model.opsets());
        opsets.remove(Node.OCTET_DOMAIN);
        return new GraphModel(
                model.irVersion(),
                opsets,
                model.graph(),
                model.functions(),
                model.producer(),
                model.metadata(),
                model.unknown());
    }

    private static void linear(GraphEdit edit, Node n) {
        Expansion e = new Expansion(edit, n);
        String x = n.input(0);
        String w = n.input(1);
        boolean transposed = n.intAttribute("transB", 0) != 0;
        if (transposed && rank(edit, x) == 2) {
            e.last("Gemm", n.hasInput(2) ? List.of(x, w, n.input(2)) : List.of(x, w), Attribute.of("transB", 1));
            return;
        }
        if (transposed) {
            w = e.node("Transpose", List.of(w), Attribute.of("perm", List.of(1L, 0L)));
        }
        if (n.hasInput(2)) {
            e.last("Add", List.of(e.node("MatMul", List.of(x, w)), n.input(2)));
        } else {
            e.last("MatMul", List.of(x, w));
        }
    }

    private static void layerNorm(GraphEdit edit, Node n, long opset) {
        Expansion e = new Expansion(edit, n);
        if (opset >= LAYER_NORM_OPSET) {
            e.last("LayerNormalization", n.inputs(), norm(n, "axis", -1), norm(n, "epsilon", 1e-5f));
            return;
        }
        DType dtype = dtype(edit, n.input(1));
        String x = e.cast(n.input(0), dtype, DType.F32);
        String d = e.node("Sub", List.of(x, e.mean(x, opset)));
        String normalised = e.node("Div", List.of(d, e.deviation(d, n, opset)));
        String scaled = e.cast(normalised, DType.F32, dtype);
        if (n.hasInput(2)) {
            e.last("Add", List.of(e.node("Mul", List.of(scaled, n.input(1))), n.input(2)));
        } else {
            e.last("Mul", List.of(scaled, n.input(1)));
        }
    }

    private static void rmsNorm(GraphEdit edit, Node n, long opset) {
        Expansion e = new Expansion(edit, n);
        if (opset >= RMS_NORM_OPSET) {
            e.last("RMSNormalization", n.inputs(), norm(n, "axis", -1), norm(n, "epsilon", 1e-5f));
            return;
        }
        DType dtype = dtype(edit, n.input(1));
        String x = e.cast(n.input(0), dtype, DType.F32);
        String normalised = e.node("Div", List.of(x, e.deviation(x, n, opset)));
        e.last("Mul", List.of(e.cast(normalised, DType.F32, dtype), n.input(1)));
    }

    private static Attribute norm(Node n, String name, float fallback) {
        return Attribute.of(name, n.floatAttribute(name, fallback));
    }

    private static Attribute norm(Node n, String name, int fallback) {
        return Attribute.of(name, n.intAttribute(name, fallback));
    }

    private static void gelu(GraphEdit edit, Node n, long opset) {
        Expansion e = new Expansion(edit, n);
        String approximate = n.textAttribute("approximate", "none");
        if (opset >= GELU_OPSET) {
            e.last("Gelu", n.inputs(), Attribute.of("approximate", approximate));
            return;
        }
        String x = n.input(0);
        DType dtype = dtype(edit, x);
        String function = approximate.equals("tanh")
                ? e.node("Tanh", List.of(tanhArgument(e, x, dtype)))
                : e.node("Erf", List.of(e.node("Div", List.of(x, e.number(Math.sqrt(2), dtype)))));
        String sum = e.node("Add", List.of(function, e.number(1, dtype)));
        e.last("Mul", List.of(e.node("Mul", List.of(x, sum)), e.number(0.5, dtype)));
    }

    private static String tanhArgument(Expansion e, String x, DType dtype) {
        String cube = e.node("Mul", List.of(e.node("Mul", List.of(x, x)), x));
        String small = e.node("Mul", List.of(cube, e.number(0.044715, dtype)));
        String sum = e.node("Add", List.of(x, small));
        return e.node("Mul", List.of(sum, e.number(Math.sqrt(2 / Math.PI), dtype)));
    }

    /** Rank of a value, -1 when not known. */
    private static int rank(GraphEdit edit, String value) {
        return edit.type(value) instanceof ValueType.TensorType t && t.dims() != null
                ? t.dims().size()
                : -1;
    }

    /**
     * Element type of a value: the recorded one, or that of the nearest float constant among what it is computed from (operators of sums
     * and products have one type); F32 when neither is known.
     */
    private static DType dtype(GraphEdit edit, String value) {
        String v = value;
        for (int step = 0; step < MAX_STEPS; step++) {
            DType known = known(edit, v);
            Node producer = edit.producer(v);
            if (known != null || producer == null || producer.inputs().isEmpty()) {
                return known == null ? DType.F32 : known;
            }
            for (String input : producer.inputs()) {
                DType constant = edit.initializer(input) == null ? null : known(edit, input);
                if (constant != null && constant.isFloat()) {
                    return constant;
                }
            }
            v = producer.input(0);
        }
        return DType.F32;
    }

    private static @Nullable DType known(GraphEdit edit, String value) {
        Initializer i = edit.initializer(value);
        if (i != null) {
            return i.tensor().map(Tensor::dtype).orElse(null);
        }
        Node producer = edit.producer(value);
        if (producer != null && producer.is("Cast")) {
            return DType.ofOnnxId((int) producer.intAttribute("to", 0)).orElse(null);
        }
        return edit.type(value) instanceof ValueType.TensorType t ? t.dtype() : null;
    }
}
