package dev.octet.converter.expand;

import dev.octet.converter.expand.TrainingExpansions.Rewrite;
import dev.octet.formats.graph.Node;
import java.util.Map;

/**
 * Elementwise operators, by their definitions in ONNX. Branches are chosen with Where, so that the other branch gets no gradient; at the
 * boundary the gradient is PyTorch's.
 */
final class ActivationRewrites {
    /** Defaults of ONNX's Selu, in F32. */
    private static final float SELU_ALPHA = 1.6732632f;

    private static final float SELU_GAMMA = 1.050701f;

    static final Map<String, Rewrite> ALL = Map.ofEntries(
            Map.entry("Celu", r -> floats(r, ActivationRewrites::celu)),
            Map.entry("Cosh", r -> floats(r, () -> hyperbolic(r, "Add"))),
            Map.entry("Elu", r -> floats(r, ActivationRewrites::elu)),
            Map.entry("Max", ActivationRewrites::chain),
            Map.entry("Mean", r -> floats(r, ActivationRewrites::mean)),
            Map.entry("Min", ActivationRewrites::chain),
            Map.entry("Mish", r -> floats(r, () -> r.last("Mul", r.x(), r.node("Tanh", r.node("Softplus", r.x()))))),
            Map.entry("Selu", r -> floats(r, ActivationRewrites::selu)),
            Map.entry("Shrink", r -> floats(r, ActivationRewrites::shrink)),
            Map.entry("Sinh", r -> floats(r, () -> hyperbolic(r, "Sub"))),
            Map.entry("Softsign", r -> floats(r, ActivationRewrites::softsign)),
            Map.entry("Sum", ActivationRewrites::chain),
            Map.entry("Tan", r -> floats(r, () -> r.last("Div", r.node("Sin", r.x()), r.node("Cos", r.x())))),
            Map.entry("ThresholdedRelu", r -> floats(r, ActivationRewrites::thresholdedRelu)));

    private ActivationRewrites() {}

    private interface Writer {
        void write(Rewriting r);
    }

    private static boolean floats(Rewriting r, Runnable writer) {
        return floats(r, any -> writer.run());
    }

    private static boolean floats(Rewriting r, Writer writer) {
        if (r.isFloat()) {
            writer.write(r);
            return true;
        }
        return false;
    }

    /** exp(x / scale) - 1 where x is not positive, 0 elsewhere: there the exponential could overflow. */
    private static String below(Rewriting r, String positive, float scale) {
        String x = r.node("Where", positive, r.number(0), r.x());
        String scaled = scale == 1 ? x : r.node("Div", x, r.number(scale));
        return r.node("Sub", r.node("Exp", scaled), r.number(1));
    }

    private static String isPositive(Rewriting r) {
        return r.node("Greater", r.x(), r.number(0));
    }

    private static void elu(Rewriting r) {
        String positive = isPositive(r);
        String below = r.node("Mul", r.number(r.node().floatAttribute("alpha", 1)), below(r, positive, 1));
        r.last("Where", positive, r.x(), below);
    }

    static void celu(Rewriting r) {
        float alpha = r.node().floatAttribute("alpha", 1);
        String positive = isPositive(r);
        r.last("Where", positive, r.x(), r.node("Mul", r.number(alpha), below(r, positive, alpha)));
    }

    private static void selu(Rewriting r) {
        Node n = r.node();
        String positive = isPositive(r);
        String below = r.node("Mul", r.number(n.floatAttribute("alpha", SELU_ALPHA)), below(r, positive, 1));
        r.last("Mul", r.number(n.floatAttribute("gamma", SELU_GAMMA)), r.node("Where", positive, r.x(), below));
    }

    private static void hyperbolic(Rewriting r, String op) {
        String both = r.node(op, r.node("Exp", r.x()), r.node("Exp", r.node("Neg", r.x())));
        r.last("Mul", both, r.number(0.5));
    }

    private static void softsign(Rewriting r) {
        r.last("Div", r.x(), r.node("Add", r.number(1), r.node("Abs", r.x())));
    }

    private static void thresholdedRelu(Rewriting r) {
        String above = r.node("Greater", r.x(), r.number(r.node().floatAttribute("alpha", 1)));
        r.last("Where", above, r.x(), r.number(0));
    }

    private static void shrink(Rewriting r) {
        float lambda = r.node().floatAttribute("lambd", 0.5f);
        String bias = r.number(r.node().floatAttribute("bias", 0));
        String high =
                r.node("Where", r.node("Greater", r.x(), r.number(lambda)), r.node("Sub", r.x(), bias), r.number(0));
        r.last("Where", r.node("Less", r.x(), r.number(-lambda)), r.node("Add", r.x(), bias), high);
    }

    /** Any number of operands, two by two. */
    private static boolean chain(Rewriting r) {
        Node n = r.node();
        int count = n.inputs().size();
        if (count == 2) {
            return false; // as the trainer has it
        }
        if (count == 1) {
            r.last("Identity", r.x());
            return true;
        }
        r.last(n.opType(), folded(r, n.opType(), count - 1), n.input(count - 1));
        return true;
    }

    /** The first {@code count} operands, two by two. */
    private static String folded(Rewriting r, String op, int count) {
        String all = r.x();
        for (int i = 1; i < count; i++) {
            all = r.node(op, all, r.node().input(i));
        }
        return all;
    }

    private static void mean(Rewriting r) {
        int count = r.node().inputs().size();
        r.last("Div", folded(r, "Add", count), r.number(count));
    }
}
