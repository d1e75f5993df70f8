package dev.octet.converter.rule;

import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.OptionalDouble;
import org.jspecify.annotations.Nullable;

/**
 * The mask of attention scores before their softmax.
 *
 * <ol>
 *   <li>{@code Add(scores, m)}: m stays as it is, unless its values are known to hide nothing, or exactly the later keys;
 *   <li>{@code Where(c, scores, low)} and {@code Where(c, low, scores)} with c known: a boolean mask.
 * </ol>
 *
 * <p>In case 2 a row that attends to no key has equal probabilities in one spelling and zeros in the other: where c is unknown, or has
 * such a row, the mask is refused.
 */
sealed interface AttentionMask {
    /** Every query attends to every key. */
    record None() implements AttentionMask {}

    /** Query i attends to keys 0 .. i. */
    record Causal() implements AttentionMask {}

    /** Added to the scores. */
    record Added(String value) implements AttentionMask {}

    /** True where a query attends to a key. */
    record Chosen(Tensor constant) implements AttentionMask {}

    /** Not a mask that Attention can express, with the reason. */
    record Refused(String reason) implements AttentionMask {}

    /** A summand at or below this hides any score, in F32 to the bit. */
    double LOWEST = -1e30;

    /** Rank from which a summand of scores is not a parameter. */
    int MASK_RANK = 3;

    /** Case 1. */
    static AttentionMask added(GraphFacts g, String mask, Shape scores) {
        Shape shape = g.shape(mask);
        DType dtype = g.dtype(mask);
        if (shape == null || dtype == null || !dtype.isFloat() || !fits(shape, scores)) {
            return new Refused("the summand of the scores, '" + mask + "', is not a mask of known type and shape");
        }
        GraphFacts.Constant c = g.constant(mask);
        if (c == null || !GraphFacts.isWeightType(dtype)) {
            return new Added(mask);
        }
        boolean[] looks = new boolean[(int) shape.elementCount()];
        for (int i = 0; i < looks.length; i++) {
            double x = GraphFacts.element(c.tensor(), i);
            looks[i] = x == 0;
            if (x != 0 && !(x <= LOWEST)) {
                return new Added(mask);
            }
        }
        return isCausal(looks, shape, scores)
                ? new Causal()
                : shape.rank() >= MASK_RANK && all(looks) ? new None() : new Added(mask);
    }

    /** Case 2; {@code hidesWhereTrue} distinguishes the two spellings. */
    static AttentionMask chosen(GraphFacts g, Node where, boolean hidesWhereTrue, Shape scores) {
        OptionalDouble low = g.scalar(where.input(hidesWhereTrue ? 1 : 2));
        if (low.isEmpty() || low.getAsDouble() > LOWEST) {
            return new Refused("the value of hidden scores is not a constant below " + LOWEST);
        }
        GraphFacts.Constant c = g.constant(where.input(0));
        if (c == null || c.tensor().dtype() != DType.BOOL || !fits(c.tensor().shape(), scores)) {
            return new Refused("the condition '" + where.input(0) + "' is not a known mask: a row could be all hidden");
        }
        Shape shape = c.tensor().shape();
        boolean[] looks = new boolean[(int) shape.elementCount()];
        for (int i = 0; i < looks.length; i++) {
            looks[i] = (c.tensor().bytes().get(ValueLayout.JAVA_BYTE, i) != 0) != hidesWhereTrue;
        }
        if (all(looks)) {
            return new None();
        }
        if (isCausal(looks, shape, scores)) {
            return new Causal();
        }
        return everyRowLooks(looks, shape)
                ? new Chosen(constant(g, where, looks, shape))
                : new Refused("the condition '" + where.input(0) + "' hides everything from a row");
    }

    private static Tensor constant(GraphFacts g, Node where, boolean[] looks, Shape shape) {
        String name = g.freshName(where.output() + "_looks");
        Tensor t = Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, DType.BOOL, shape));
        for (int i = 0; i < looks.length; i++) {
            t.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) (looks[i] ? 1 : 0));
        }
        return t;
    }

    private static boolean fits(Shape mask, Shape scores) {
        boolean fits = mask.rank() <= scores.rank();
        for (int axis = 1; fits && axis <= mask.rank(); axis++) {
            fits = mask.dim(-axis) == 1 || mask.dim(-axis) == scores.dim(-axis);
        }
        return fits;
    }

    private static boolean all(boolean[] looks) {
        for (boolean look : looks) {
            if (!look) {
                return false;
            }
        }
        return true;
    }

    private static boolean isCausal(boolean[] looks, Shape shape, Shape scores) {
        int keys = (int) scores.dim(-1);
        int queries = (int) scores.dim(-2);
        if (shape.rank() < 2 || shape.dim(-1) != keys || shape.dim(-2) != queries) {
            return false;
        }
        for (int i = 0; i < looks.length; i++) {
            if (looks[i] != (i % keys <= i / keys % queries)) {
                return false;
            }
        }
        return true;
    }

    private static boolean everyRowLooks(boolean[] looks, Shape shape) {
        int keys = shape.rank() == 0 ? 1 : (int) shape.dim(-1);
        for (int row = 0; row < looks.length; row += keys) {
            boolean any = false;
            for (int j = 0; j < keys; j++) {
                any |= looks[row + j];
            }
            if (!any) {
                return false;
            }
        }
        return true;
    }

    /** The third input of Attention; null when absent. */
    default @Nullable String input() {
        return switch (this) {
            case Added(String value) -> value;
            case Chosen(Tensor t) -> t.name();
            case None _, Causal _, Refused _ -> null;
        };
    }

    /** What the graph has to hold for it. */
    default List<Initializer> constants() {
        return this instanceof Chosen(Tensor t) ? List.of(Initializer.of(t)) : List.of();
    }
}
