package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.Shape;
import java.util.List;

/**
 * The graph of a router behind its scores: which experts each token gets, and with which weights.
 *
 * @param module of the router
 * @param experts to choose from
 * @param active how many a token gets
 */
record ExpertRouter(GraphDraft draft, HfConfig config, String module, int experts, int active) {
    /** What a router says: weights [batch, sequence, active], and I64 experts of the same shape. */
    record Choice(String weights, String experts) {}

    /** The choice by {@code logits} [batch, sequence, experts]. */
    Choice choose(Mixture.Router router, String logits) {
        return switch (router) {
            case NORMALISED -> normalised(best(softmax(logits), active));
            case CONFIGURED -> {
                Choice choice = best(softmax(logits), active);
                yield config.flag(false, "norm_topk_prob") ? normalised(choice) : choice;
            }
            case GROUPS -> scaled(greedy(softmax(logits)));
            case BIASED_GROUPS -> biased(op("Sigmoid", List.of(logits)));
            case BEST_SCORES -> {
                Choice choice = best(logits, active);
                yield new Choice(softmax(choice.weights()), choice.experts());
            }
            case BEFORE -> {
                Choice choice = best(logits, active);
                yield new Choice(op("Sigmoid", List.of(choice.weights())), choice.experts());
            }
        };
    }

    private Choice greedy(String scores) {
        String method = config.text("greedy", "topk_method");
        return switch (method) {
            case "greedy" -> best(scores, active);
            case "group_limited_greedy" -> {
                String groups =
                        op("ReduceMax", List.of(byGroup(scores, groups()), axis(-1)), Attribute.of("keepdims", 0));
                yield best(inBestGroups(scores, groups, 0), active);
            }
            default -> throw config.unsupported("topk_method", method, "greedy, group_limited_greedy");
        };
    }

    private Choice biased(String scores) {
        String biased = op("Add", List.of(scores, draft.buffer(module + ".e_score_correction_bias", experts)));
        Choice two = best(byGroup(biased, groups()), Math.min(2, experts / groups()));
        String groups = op("ReduceSum", List.of(two.weights(), axis(-1)), Attribute.of("keepdims", 0));
        String chosen = best(inBestGroups(biased, groups, Float.NEGATIVE_INFINITY), active)
                .experts();
        Choice choice = new Choice(op("GatherElements", List.of(scores, chosen), Attribute.of("axis", -1)), chosen);
        return scaled(config.flag(true, "norm_topk_prob") ? normalised(choice) : choice);
    }

    private int groups() {
        int groups = config.sizeOr(1, "n_group");
        config.divided(experts, "experts", groups, "n_group");
        return groups;
    }

    /** [batch, sequence, groups, experts of each]. */
    private String byGroup(String scores, int groups) {
        String shape = draft.longs(
                "groups_" + groups + "_of_" + experts / groups, Shape.of(4), 0, 0, groups, experts / groups);
        return op("Reshape", List.of(scores, shape));
    }

    /**
     * The scores of experts of the best groups, and a number for all others.
     *
     * @param groups what each group is worth, [batch, sequence, groups]
     */
    private String inBestGroups(String scores, String groups, float otherwise) {
        int count = groups();
        int kept = config.sizeOr(count, "topk_group");
        if (kept > count) {
            throw config.malformed("topk_group " + kept + " is more than n_group " + count);
        }
        String indices = best(groups, kept).experts();
        String one = draft.floats("router_one", Shape.SCALAR, 1);
        String ones = op("Expand", List.of(one, op("Shape", List.of(indices))));
        String zeros =
                op("Expand", List.of(draft.floats("router_zero", Shape.SCALAR, 0), op("Shape", List.of(groups))));
        String mask = op("ScatterElements", List.of(zeros, indices, ones), Attribute.of("axis", -1));
        String inside = op(
                "Greater",
                List.of(op("Unsqueeze", List.of(mask, axis(-1))), draft.floats("router_zero", Shape.SCALAR, 0)));
        String name = otherwise == 0 ? "router_zero" : "router_never";
        String masked =
                op("Where", List.of(inside, byGroup(scores, count), draft.floats(name, Shape.SCALAR, otherwise)));
        return op("Reshape", List.of(masked, draft.longs("all_" + experts, Shape.of(3), 0, 0, experts)));
    }

    private String softmax(String logits) {
        return op("Softmax", List.of(logits), Attribute.of("axis", -1));
    }

    /** The best along the last axis: their values, and where they are. */
    private Choice best(String scores, int count) {
        List<String> best = draft.ops(
                GraphDraft.path(module) + "/TopK",
                "TopK",
                List.of(scores, draft.longs("best_" + count, Shape.of(1), count)),
                2,
                Attribute.of("axis", -1));
        return new Choice(best.getFirst(), best.getLast());
    }

    private Choice normalised(Choice choice) {
        String sum = op("ReduceSum", List.of(choice.weights(), axis(-1)), Attribute.of("keepdims", 1));
        return new Choice(op("Div", List.of(choice.weights(), sum)), choice.experts());
    }

    private Choice scaled(Choice choice) {
        double factor = config.positive(1, "routed_scaling_factor");
        if (factor == 1) {
            return choice;
        }
        String number = draft.floats("routed_scaling_factor", Shape.SCALAR, (float) factor);
        return new Choice(op("Mul", List.of(choice.weights(), number)), choice.experts());
    }

    private String axis(long axis) {
        return draft.longs("axis_" + axis, Shape.of(1), axis);
    }

    private String op(String type, List<String> inputs, Attribute... attributes) {
        return draft.op(GraphDraft.path(module) + "/" + type, type, inputs, attributes);
    }
}
