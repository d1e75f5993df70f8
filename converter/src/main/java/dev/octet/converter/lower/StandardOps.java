package dev.octet.converter.lower;

import dev.octet.converter.expand.Expansion;
import dev.octet.converter.infer.Analysis;
import dev.octet.converter.pass.Pass;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Turns the operators of {@link CanonicalOps} back into ONNX's own at the model's opset, so that a partly rewritten model can be
 * saved and run.
 *
 * <table>
 * <caption>Replacements</caption>
 * <tr><td>Linear</td><td>MatMul and Add; Gemm where w is [out, in] and x is known to be 2-D; MatMul with Transpose(w) otherwise</td></tr>
 * <tr><td>LayerNormalization</td><td>the operator from opset 17 on; before, the nine nodes that TorchScript wrote</td></tr>
 * <tr><td>RMSNormalization</td><td>the operator from opset 23 on; before, in F32: Mul, ReduceMean, Add, Sqrt, Div, then Mul</td></tr>
 * <tr><td>Gelu</td><td>the operator from opset 20 on; before, by Erf or Tanh</td></tr>
 * <tr><td>ExpertRows, ExpertSum</td><td>NonZero and Gather; ScatterND and ReduceSum</td></tr>
 * </table>
 *
 * <p>Constants of Linear and of the normalisations that are BF16 or F16 where x is wider stay narrow in the file: a Cast to x's type
 * follows them.
 *
 * <p>Attention and RotaryEmbedding stay, with operands in the shape that ONNX Runtime needs ({@link SpelledBroadcast}).
 *
 * <p>Nodes are named {@code <canonical name>/<operator>}, from which pattern rules recover the canonical name.
 */
public final class StandardOps implements Pass {
    private static final int LAYER_NORM_OPSET = 17;
    private static final int GELU_OPSET = 20;
    private static final int RMS_NORM_OPSET = 23;
    /** Nodes that the search for a type goes back through. */
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
        if (model.graph().nodes().stream().noneMatch(StandardOps::mayChange)) {
            return model;
        }
        GraphEdit edit = GraphEdit.of(model.graph());
        Types types = new Types(edit, Analysis.of(model));
        SpelledBroadcast broadcast = new SpelledBroadcast(edit, types.analysis());
        int lowered = 0;
        int spread = 0;
        for (Node n : edit.nodes()) {
            if (!n.domain().equals(Node.OCTET_DOMAIN)) {
                spread += broadcast.apply(n) ? 1 : 0;
                continue;
            }
            lowered++;
            switch (n.opType()) {
                case CanonicalOps.LINEAR -> linear(types, checked(n, 2));
                case CanonicalOps.LAYER_NORM -> layerNorm(types, checked(n, 2), model.opset());
                case CanonicalOps.RMS_NORM -> rmsNorm(types, checked(n, 2), model.opset());
                case CanonicalOps.GELU -> gelu(types, checked(n, 1), model.opset());
                case CanonicalOps.EXPERT_ROWS -> ExpertForm.rows(new Expansion(edit, n), n);
                case CanonicalOps.EXPERT_SUM -> ExpertForm.sum(new Expansion(edit, n), n);
                default -> lowered--; // an FP8 operator: the target's own lowering knows it
            }
        }
        if (lowered + spread == 0) {
            return model;
        }
        log.note(name(), "", lowered + " nodes back to standard operators of opset " + model.opset());
        return withoutUnusedDomain(model.withGraph(edit.build()));
    }

    private static boolean mayChange(Node n) {
        return n.domain().equals(Node.OCTET_DOMAIN) || n.is("Attention") || n.is("RotaryEmbedding");
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

    private static void linear(Types types, Node n) {
        Expansion e = new Expansion(types.edit(), n);
        String x = n.input(0);
        List<String> constants = widened(e, types, n, types.recorded(x));
        String w = constants.getFirst();
        boolean transposed = n.intAttribute("transB", 0) != 0;
        if (transposed && types.rank(x) == 2) {
            e.last("Gemm", inputs(x, constants), Attribute.of("transB", 1));
            return;
        }
        if (transposed) {
            w = e.node("Transpose", List.of(w), Attribute.of("perm", List.of(1L, 0L)));
        }
        if (constants.size() > 1) {
            e.last("Add", List.of(e.node("MatMul", List.of(x, w)), constants.get(1)));
        } else {
            e.last("MatMul", List.of(x, w));
        }
    }

    private static void layerNorm(Types types, Node n, long opset) {
        Expansion e = new Expansion(types.edit(), n);
        DType dtype = types.ofNormalised(n);
        List<String> constants = widened(e, types, n, dtype);
        if (opset >= LAYER_NORM_OPSET) {
            e.last("LayerNormalization", inputs(n.input(0), constants), norm(n, "axis", -1), norm(n, "epsilon", 1e-5f));
            return;
        }
        String x = e.cast(n.input(0), dtype, DType.F32);
        String d = e.node("Sub", List.of(x, e.mean(x, opset)));
        String normalised = e.node("Div", List.of(d, e.deviation(d, n, opset)));
        String scaled = e.cast(normalised, DType.F32, dtype);
        if (constants.size() > 1) {
            e.last("Add", List.of(e.node("Mul", List.of(scaled, constants.getFirst())), constants.get(1)));
        } else {
            e.last("Mul", List.of(scaled, constants.getFirst()));
        }
    }

    private static void rmsNorm(Types types, Node n, long opset) {
        Expansion e = new Expansion(types.edit(), n);
        DType dtype = types.ofNormalised(n);
        List<String> constants = widened(e, types, n, dtype);
        if (opset >= RMS_NORM_OPSET) {
            e.last("RMSNormalization", inputs(n.input(0), constants), norm(n, "axis", -1), norm(n, "epsilon", 1e-5f));
            return;
        }
        String x = e.cast(n.input(0), dtype, DType.F32);
        String normalised = e.node("Div", List.of(x, e.deviation(x, n, opset)));
        e.last("Mul", List.of(e.cast(normalised, DType.F32, dtype), constants.getFirst()));
    }

    private static List<String> inputs(String x, List<String> constants) {
        List<String> inputs = new ArrayList<>(List.of(x));
        inputs.addAll(constants);
        return inputs;
    }

    /** The inputs behind x, those that are narrower floats than x cast to x's type; as they are where a type is not known. */
    private static List<String> widened(Expansion e, Types types, Node n, @Nullable DType x) {
        List<String> wide = new ArrayList<>();
        for (int i = 1; i < n.inputs().size() && n.hasInput(i); i++) {
            DType own = types.recorded(n.input(i));
            wide.add(
                    own != null && x != null && isHalf(own) && x.isFloat() && x.bits() > own.bits()
                            ? e.cast(n.input(i), own, x)
                            : n.input(i));
        }
        return wide;
    }

    private static boolean isHalf(DType dtype) {
        return dtype == DType.BF16 || dtype == DType.F16;
    }

    private static Attribute norm(Node n, String name, float fallback) {
        return Attribute.of(name, n.floatAttribute(name, fallback));
    }

    private static Attribute norm(Node n, String name, int fallback) {
        return Attribute.of(name, n.intAttribute(name, fallback));
    }

    private static void gelu(Types types, Node n, long opset) {
        Expansion e = new Expansion(types.edit(), n);
        String approximate = n.textAttribute("approximate", "none");
        if (opset >= GELU_OPSET) {
            e.last("Gelu", n.inputs(), Attribute.of("approximate", approximate));
            return;
        }
        String x = n.input(0);
        DType dtype = types.of(x);
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

    /** What is known of values: by the types of the graph, else by the constants nearby. */
    private record Types(GraphEdit edit, Analysis analysis) {
        /** Rank of a value, -1 when not known. */
        int rank(String value) {
            List<Dim> dims = analysis.dims(value);
            return dims == null ? -1 : dims.size();
        }

        /** Element type of a value; null when unknown. */
        @Nullable
        DType recorded(String value) {
            return analysis.dtype(value);
        }

        /** Element type of a normalisation's input, else of its weight. */
        DType ofNormalised(Node n) {
            DType x = recorded(n.input(0));
            return x == null ? of(n.input(1)) : x;
        }

        /**
         * Element type of a value: the recorded one, or that of the nearest float constant among what it is computed from (operators of
         * sums and products have one type); F32 when neither is known.
         */
        DType of(String value) {
            String v = value;
            for (int step = 0; step < MAX_STEPS; step++) {
                DType known = recorded(v);
                Node producer = edit.producer(v);
                if (known != null || producer == null || producer.inputs().isEmpty()) {
                    return known == null ? DType.F32 : known;
                }
                for (String input : producer.inputs()) {
                    DType constant = edit.initializer(input) == null ? null : recorded(input);
                    if (constant != null && constant.isFloat()) {
                        return constant;
                    }
                }
                v = producer.input(0);
            }
            return DType.F32;
        }
    }
}
