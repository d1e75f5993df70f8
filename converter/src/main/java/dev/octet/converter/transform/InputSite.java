package dev.octet.converter.transform;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A value that Linears read, and what makes it: there its channels can be divided by factors that the Linears' weights are multiplied with.
 *
 * @param value its name in the graph
 * @param readers all Linears that read it, at least one
 * @param maker what makes it
 */
public record InputSite(String value, List<GraphLinear> readers, Maker maker) {
    public InputSite {
        readers = List.copyOf(readers);
    }

    /** Channels of the value. */
    int channels() {
        return readers.getFirst().in();
    }

    /** What makes a value, as far as factors of its channels can go into it. */
    public sealed interface Maker {
        /** In words, for lists of what is folded into what. */
        String text();
    }

    /**
     * A norm whose output goes nowhere else.
     *
     * @param node its id
     * @param weight the constant's name
     * @param bias the constant's name; null without
     * @param around what the model adds to the weight: 0, or 1 for Gemma's
     */
    record Norm(String node, String weight, @Nullable String bias, double around) implements Maker {
        @Override
        public String text() {
            return GraphLinear.module(weight);
        }
    }

    /**
     * Output channels of a Linear, with nothing between that a factor of a channel would not pass: a product with another value, ReLU, or
     * the sum over positions that attention makes of its values.
     *
     * @param first of the Linear's output channels
     * @param count how many of them; channel c of the value is channel {@code first + of(c)}
     * @param heads how many the value has for {@code count / headSize} heads of the Linear; the channels of a head where they are not heads
     *     of attention
     */
    record Rows(GraphLinear linear, int first, int count, int heads, int headSize) implements Maker {
        @Override
        public String text() {
            return linear.module();
        }

        boolean ofHeads() {
            return headSize > 0;
        }

        /** The Linear's channel, counted from {@link #first}, that channel {@code c} of the value comes from. */
        int of(int c) {
            if (headSize == 0) {
                return c;
            }
            int shared = heads / (count / headSize);
            return c / headSize / shared * headSize + c % headSize;
        }
    }

    /** Anything else. */
    record Other(String text) implements Maker {}
}
