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

    /** The block of the module at {@code module} over x [batch, sequence, hidden]. */
    String emit(String module, String x) {
        ExpertRouter.Choice choice = choice(module + "." + mixture.router().module(), x);
        String path = GraphDraft.path(module);
        boolean before = mixture.router() == Mixture.Router.BEFORE;
        String read = before ? draft.op(path + "/Mul_score", "Mul", List.of(x, choice.weights())) : x;
        String tokens = draft.op(
                path + "/Reshape", "Reshape", List.of(read, draft.longs("rows_of_" + hidden, Shape.of(2), -1, hidden)));
        String chosen = draft.op(
                path + "/Reshape_chosen", "Reshape", List.of(choice.experts(), draft.longs("flat", Shape.of(1), -1)));
        List<String> sum = new ArrayList<>(List.of(before ? ones(path, choice.weights()) : choice.weights()));
        int inner = config.size(mixture.inner());
        FusedExperts.cut(draft.parameters(), mixture.expert(), module + ".experts", experts, hidden, inner);
        for (int e = 0; e < experts; e++) {
            String expert = module + ".experts." + e;
            List<String> rows = draft.octet(
                    GraphDraft.path(expert) + "/rows",
                    CanonicalOps.EXPERT_ROWS,
                    List.of(tokens, chosen),
                    2,
                    Attribute.of("expert", e),
                    Attribute.of("choices", active));
            sum.add(expert(expert, rows.getFirst(), inner));
            sum.add(rows.getLast());
        }
        String y = draft.octet(path + "/experts", CanonicalOps.EXPERT_SUM, sum, 1, Attribute.of("size", hidden))
                .getFirst();
        Optional<Integer> shared = mixture.sharedInner(config);
        return shared.isEmpty() ? y : draft.add(path, y, shared(module, x, shared.get()));
    }

    /** One for each choice. */
    private String ones(String path, String weights) {
        String shape = draft.op(path + "/Shape_choices", "Shape", List.of(weights));
        return draft.op(path + "/Expand_ones", "Expand", List.of(draft.floats("router_one", Shape.SCALAR, 1), shape));
    }

    private String expert(String module, String rows, int inner) {
        Mixture.Expert expert = mixture.expert();
        GatedMlp mlp = new GatedMlp(hidden, inner, activation, false);
        return switch (expert) {
            case CLAMPED ->
                new ClampedMlp(hidden, inner, (float) config.positive(7, "swiglu_limit")).emit(draft, module, rows);
            case HALVES -> mlp.emitTransposed(draft, module, "gate_up_proj", "down_proj", rows);
            case MIXTRAL, GATED -> mlp.emit(draft, module, expert.gate(), expert.up(), expert.down(), rows);
        };
    }

    private ExpertRouter.Choice choice(String module, String x) {
        String logits = draft.router(module, x, hidden, experts, mixture.router() == Mixture.Router.BEST_SCORES);
        return new ExpertRouter(draft, config, module, experts, active).choose(mixture.router(), logits);
    }

    private String shared(String module, String x, int inner) {
        GatedMlp mlp = new GatedMlp(hidden, inner, activation, false);
        return switch (mixture.shared()) {
            case NONE -> throw new IllegalStateException("no shared expert");
            case SAME -> mlp.emit(draft, module + ".shared_expert", "gate_proj", "up_proj", "down_proj", x);
            case PLAIN -> mlp.emit(draft, module + ".shared_experts", "gate_proj", "up_proj", "down_proj", x);
            case GATED -> {
                String path = GraphDraft.path(module);
                String y = mlp.emit(draft, module + ".shared_expert", "gate_proj", "up_proj", "down_proj", x);
                String gate = draft.linear(module + ".shared_expert_gate", x, hidden, 1, false);
                String open = draft.op(path + "/shared_expert_gate/Sigmoid", "Sigmoid", List.of(gate));
                yield draft.op(path + "/Mul", "Mul", List.of(y, open));
            }
        };
    }
}
