package dev.octet.converter.hf;

import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;

/**
 * The experts of Switch Transformers (Fedus et al. 2021, arXiv:2101.03961): each token gets the one of the highest probability, which its result is
 * multiplied by. An expert takes the first {@code expert_capacity} tokens of a sample that choose it; later ones are dropped, for which the block gives
 * zero. Source: transformers/models/switch_transformers/modeling_switch_transformers.py.
 */
final class SwitchBlock {
    private final HfConfig config;
    private final GraphDraft draft;
    private final int hidden;
    private final boolean targets;
    private final int experts;

    /**
     * @param hidden elements of a token
     * @param targets whether the tokens are a decoder's, of which no mask says which are padding
     */
    SwitchBlock(HfConfig config, GraphDraft draft, int hidden, boolean targets) {
        this.config = config;
        this.draft = draft;
        this.hidden = hidden;
        this.targets = targets;
        this.experts = config.sizeOr(8, "num_experts");
    }

    /** The block of the module at {@code module} over x [batch, sequence, hidden]. */
    String emit(String module, String x) {
        String path = GraphDraft.path(module);
        String router = module + ".router";
        ExpertRouter.Choice choice = limited(GraphDraft.path(router), choice(router, x));
        String tokens = draft.op(
                path + "/Reshape", "Reshape", List.of(x, draft.longs("rows_of_" + hidden, Shape.of(2), -1, hidden)));
        String chosen = draft.op(
                path + "/Reshape_chosen", "Reshape", List.of(choice.experts(), draft.longs("flat", Shape.of(1), -1)));
        PlainMlp mlp = new PlainMlp(hidden, config.size("d_ff"), Activations.of(config, "dense_act_fn", "relu"));
        List<String> sum = new ArrayList<>(List.of(choice.weights()));
        for (int e = 0; e < experts; e++) {
            String expert = module + ".experts.expert_" + e;
            List<String> rows = draft.octet(
                    GraphDraft.path(expert) + "/rows",
                    CanonicalOps.EXPERT_ROWS,
                    List.of(tokens, chosen),
                    2,
                    Attribute.of("expert", e),
                    Attribute.of("choices", 1),
                    Attribute.of(CanonicalOps.DROPPING, 1),
                    Attribute.of(Node.UNMASKED, targets ? 1 : 0));
            sum.add(mlp.emit(draft, expert, rows.getFirst()));
            sum.add(rows.getLast());
        }
        return draft.octet(path + "/experts", CanonicalOps.EXPERT_SUM, sum, 1, Attribute.of("size", hidden))
                .getFirst();
    }

    private ExpertRouter.Choice choice(String router, String x) {
        String module = router + ".classifier";
        String logits = draft.router(module, x, hidden, experts, config.flag(false, "router_bias"), targets);
        return new ExpertRouter(draft, config, router, experts, 1).choose(Mixture.Router.CONFIGURED, logits);
    }

    /** The choices within capacity; others are of expert -1, with the weight 0. */
    private ExpertRouter.Choice limited(String path, ExpertRouter.Choice choice) {
        int capacity = config.sizeOr(64, "expert_capacity");
        String numbers = draft.longs(
                "experts_" + experts,
                Shape.of(experts),
                LongStream.range(0, experts).toArray());
        String hits = number(path, draft.op(path + "/Equal", "Equal", List.of(choice.experts(), numbers)));
        // how many tokens of the sample chose each expert, up to this one
        String counts = draft.op(path + "/CumSum", "CumSum", List.of(hits, draft.longs("one", Shape.of(), 1)));
        String own = draft.op(
                path + "/ReduceSum",
                "ReduceSum",
                List.of(
                        draft.op(path + "/Mul", "Mul", List.of(hits, counts)),
                        draft.longs("axes_last", Shape.of(1), -1)),
                Attribute.of("keepdims", 1));
        String most = draft.floats("expert_capacity", Shape.SCALAR, capacity);
        String kept = draft.op(path + "/LessOrEqual", "LessOrEqual", List.of(own, most));
        String none = draft.longs("no_expert", Shape.of(), -1);
        return new ExpertRouter.Choice(
                draft.op(path + "/Mul_kept", "Mul", List.of(choice.weights(), number(path, kept))),
                draft.op(path + "/Where", "Where", List.of(kept, choice.experts(), none)));
    }

    private String number(String path, String x) {
        return draft.op(path + "/Cast", "Cast", List.of(x), Attribute.of("to", DType.F32.onnxId()));
    }
}
