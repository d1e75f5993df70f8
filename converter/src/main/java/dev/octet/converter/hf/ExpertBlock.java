package dev.octet.converter.hf;

import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The graph of one {@link Mixture}: a router in F32, for each expert the rows of its tokens and a gated MLP on them, and the sum of what they give.
 * Each expert's Linears are nodes of their own, so that statistics, scales and files know them by the names of their weights.
 */
final class ExpertBlock {
    private final Mixture mixture;
    private final HfConfig config;
    private final GraphDraft draft;
    private final int hidden;
    private final String activation;
    private final int experts;
    private final int active;

    /**
     * @param hidden elements of a token
     * @param activation by transformers' name
     */
    ExpertBlock(Mixture mixture, HfConfig config, GraphDraft draft, int hidden, String activation) {
        this.mixture = mixture;
        this.config = config;
        this.draft = draft;
        this.hidden = hidden;
        this.activation = activation;
        this.experts = mixture.experts(config);
        this.active = mixture.active(config);
    }

    /** What a router says: weights [batch, sequence, active], and I64 experts of the same shape. */
    private record Choice(String weights, String experts) {}

    /** The block of the module at {@code module} over x [batch, sequence, hidden]. */
    String emit(String module, String x) {
        Choice choice = choice(module + ".gate", x);
        String path = GraphDraft.path(module);
        String tokens = draft.op(
                path + "/Reshape", "Reshape", List.of(x, draft.longs("rows_of_" + hidden, Shape.of(2), -1, hidden)));
        String chosen = draft.op(
                path + "/Reshape_chosen", "Reshape", List.of(choice.experts(), draft.longs("flat", Shape.of(1), -1)));
        List<String> sum = new ArrayList<>(List.of(choice.weights()));
        GatedMlp mlp = new GatedMlp(hidden, config.size(mixture.inner()), activation, false);
        for (int e = 0; e < experts; e++) {
            String expert = module + ".experts." + e;
            List<String> rows = draft.octet(
                    GraphDraft.path(expert) + "/rows",
                    CanonicalOps.EXPERT_ROWS,
                    List.of(tokens, chosen),
                    2,
                    Attribute.of("expert", e),
                    Attribute.of("choices", active));
            sum.add(mlp.emit(draft, expert, mixture.gate(), mixture.up(), mixture.down(), rows.getFirst()));
            sum.add(rows.getLast());
        }
        String y = draft.octet(path + "/experts", CanonicalOps.EXPERT_SUM, sum, 1, Attribute.of("size", hidden))
                .getFirst();
        Optional<Integer> shared = mixture.sharedInner(config);
        return shared.isEmpty() ? y : draft.add(path, y, shared(module, x, shared.get()));
    }

    private Choice choice(String module, String x) {
        String path = GraphDraft.path(module);
        String logits = draft.router(module, x, hidden, experts);
        String scores = draft.op(path + "/Softmax", "Softmax", List.of(logits), Attribute.of("axis", -1));
        List<String> best = draft.ops(
                path + "/TopK",
                "TopK",
                List.of(scores, draft.longs("best_" + active, Shape.of(1), active)),
                2,
                Attribute.of("axis", -1));
        String weights = best.getFirst();
        if (mixture.normalises(config)) {
            String sum = draft.op(
                    path + "/ReduceSum",
                    "ReduceSum",
                    List.of(weights, draft.longs("last_axis", Shape.of(1), -1)),
                    Attribute.of("keepdims", 1));
            weights = draft.op(path + "/Div", "Div", List.of(weights, sum));
        }
        return new Choice(weights, best.getLast());
    }

    private String shared(String module, String x, int inner) {
        String path = GraphDraft.path(module);
        String y = new GatedMlp(hidden, inner, activation, false)
                .emit(draft, module + ".shared_expert", "gate_proj", "up_proj", "down_proj", x);
        String gate = draft.linear(module + ".shared_expert_gate", x, hidden, 1, false);
        return draft.op(
                path + "/Mul", "Mul", List.of(y, draft.op(path + "/shared_expert_gate/Sigmoid", "Sigmoid", List.of(gate))));
    }
}
