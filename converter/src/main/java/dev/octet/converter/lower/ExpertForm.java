package dev.octet.converter.lower;

import dev.octet.converter.expand.Expansion;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;

/**
 * Mixtures of experts in ONNX's own operators. Each expert multiplies the rows of its tokens alone: NonZero finds them, Gather brings them. The other
 * way, all experts for all tokens with a mask, has no shapes that depend on data, but multiplies as many times more as there are experts for each
 * one chosen.
 *
 * <p>What experts give is put in the order of the tokens' choices by one ScatterND and then added up: so the sum of a token always has one order, and a
 * choice that no expert has a row of counts as zero.
 */
final class ExpertForm {
    private ExpertForm() {}

    /** Places where the expert was chosen, and the rows of the tokens that chose it. */
    static void rows(Expansion e, Node n) {
        String expert = e.number((double) n.intAttribute("expert", 0), DType.I64);
        String hits = e.node("NonZero", List.of(e.node("Equal", List.of(n.input(1), expert))));
        e.output(1, "Reshape", List.of(hits, e.numbers(-1)));
        String choices = e.number((double) n.intAttribute("choices", 1), DType.I64);
        String tokens = e.node("Div", List.of(n.output(1), choices));
        e.last("Gather", List.of(n.input(0), tokens), Attribute.of("axis", 0));
    }

    /** All rows in the order of the choices, times the weights, added up. */
    static void sum(Expansion e, Node n) {
        List<String> rows = new ArrayList<>();
        List<String> places = new ArrayList<>();
        for (int i = 1; i < n.inputs().size(); i += 2) {
            rows.add(n.input(i));
            places.add(n.input(i + 1));
        }
        String all = e.node("Concat", rows, Attribute.of("axis", 0));
        String at = e.node("Unsqueeze", List.of(e.node("Concat", places, Attribute.of("axis", 0)), e.numbers(-1)));
        String weights = n.input(0);
        String size = e.numbers(n.intAttribute("size", 0));
        String count = e.node("Shape", List.of(e.node("Reshape", List.of(weights, e.numbers(-1)))));
        String zeros =
                e.node("ConstantOfShape", List.of(e.node("Concat", List.of(count, size), Attribute.of("axis", 0))));
        String ordered = e.node("ScatterND", List.of(zeros, at, all));
        String shape = e.node("Concat", List.of(e.node("Shape", List.of(weights)), size), Attribute.of("axis", 0));
        String choices = e.node("Reshape", List.of(ordered, shape));
        String weighted = e.node("Mul", List.of(choices, e.node("Unsqueeze", List.of(weights, e.numbers(-1)))));
        e.last("ReduceSum", List.of(weighted, e.numbers(-2)), Attribute.of("keepdims", 0));
    }
}
