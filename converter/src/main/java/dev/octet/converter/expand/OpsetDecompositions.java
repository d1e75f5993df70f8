package dev.octet.converter.expand;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Function;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;

/**
 * Brings operators of ONNX's default domain to an older opset: newer operators are decomposed into older ones; sizes may stay
 * symbols. The results are the same up to rounding. For a later opset only the number is raised: from 21 to 28 operators keep their
 * meaning.
 *
 * <p>A node that cannot be written is refused by name: an unknown operator, a newer attribute or number type (see {@link LaterOpsets}),
 * or an operator in a subgraph or a function, where nothing is replaced.
 *
 * <p>Results are those of ONNX's own definitions. A row of Attention that attends to no key is therefore zero, as in ONNX Runtime.
 */
public final class OpsetDecompositions {
    /** The lowest opset that models can be brought to. */
    public static final int OLDEST = 21;

    /** Writes a node anew; false when it cannot, and nothing was written. */
    @FunctionalInterface
    private interface Decomposition {
        boolean write(Rewriting r, SharedValues shared);
    }

    private static final Map<String, Decomposition> ALL = new TreeMap<>(Map.of(
            "Attention", always((r, shared) -> new AttentionRewrite(r, shared).write()),
            "AveragePool", (r, _) -> PoolingRewrite.write(r),
            "BitShift", (r, _) -> LaterTypes.bitShift(r),
            "Celu", (r, _) -> LaterTypes.celu(r),
            "MaxPool", (r, _) -> PoolingRewrite.write(r),
            "RMSNormalization", always((r, _) -> RootMeanSquareRewrite.write(r)),
            "Range", (r, _) -> LaterTypes.range(r),
            "RotaryEmbedding", always(RotaryEmbeddingRewrite::write),
            "Swish", always((r, _) -> swish(r))));

    private static Decomposition always(BiConsumer<Rewriting, SharedValues> writer) {
        return (r, shared) -> {
            writer.accept(r, shared);
            return true;
        };
    }

    private OpsetDecompositions() {}

    /** Names of the operators that are decomposed, in alphabetical order. */
    public static List<String> names() {
        return List.copyOf(ALL.keySet());
    }

    /**
     * The model at {@code opset}; the same object when it has that opset already.
     *
     * @param model at opset {@value #OLDEST} or later
     * @param opset {@value #OLDEST} or later
     * @throws UnsupportedModelException when a node has no form at that opset that computes the same
     */
    public static GraphModel apply(GraphModel model, int opset) {
        if (opset < OLDEST) {
            throw new IllegalArgumentException("opset " + opset + " is older than " + OLDEST);
        }
        LaterOpsets later = new LaterOpsets(opset);
        List<Function> functions = new ArrayList<>();
        for (Function f : model.functions()) {
            functions.add(older(f, later, opset));
        }
        GraphModel all = functions.equals(model.functions()) ? model : model.withFunctions(functions);
        if (model.opset() <= opset) {
            return model.opset() == opset ? all : all.withOpset("", opset, LaterOpsets.irVersion(opset));
        }
        Graph graph = older(all, later);
        Map<String, Long> opsets = new LinkedHashMap<>(all.opsets());
        opsets.put("", (long) opset);
        return new GraphModel(
                Math.min(all.irVersion(), LaterOpsets.irVersion(opset)),
                opsets,
                graph,
                all.functions(),
                all.producer(),
                all.metadata(),
                all.unknown());
    }

    private static Graph older(GraphModel model, LaterOpsets later) {
        Analysis analysis = Analysis.of(model);
        later.checkTypes(model.graph(), analysis);
        GraphEdit edit = GraphEdit.of(model.graph());
        SharedValues shared = new SharedValues();
        for (Node n : edit.nodes()) {
            String newer = later.problem(n, analysis);
            Decomposition decomposition = n.domain().isEmpty() ? ALL.get(n.opType()) : null;
            if (newer != null
                    && (decomposition == null
                            || !decomposition.write(new Rewriting(n, analysis, new Expansion(edit, n)), shared))) {
                throw later.refused(n, newer);
            }
            for (Graph g : n.subgraphs()) {
                later.checkNested(g, analysis, "a subgraph of node '" + n.id() + "'");
            }
        }
        return edit.build();
    }

    private static Function older(Function f, LaterOpsets later, int opset) {
        Map<String, Long> opsets = new LinkedHashMap<>();
        f.opsets().forEach((d, v) -> opsets.merge(d.equals("ai.onnx") ? "" : d, v, Math::max));
        Long own = opsets.get("");
        if (own == null || own <= opset) {
            return f;
        }
        Graph body = Graph.of(f.name(), f.nodes(), List.of(), List.of(), List.of());
        later.checkNested(body, null, "function " + f.domain() + "." + f.name());
        opsets.put("", (long) opset);
        return f.withOpsets(opsets);
    }

    /** x · sigmoid(alpha · x). */
    private static void swish(Rewriting r) {
        float alpha = r.node().floatAttribute("alpha", 1);
        if (alpha == 1) {
            r.last("Mul", r.x(), r.node("Sigmoid", r.x()));
            return;
        }
        r.requireFloat();
        r.last("Mul", r.x(), r.node("Sigmoid", r.node("Mul", r.x(), r.number(alpha))));
    }
}
